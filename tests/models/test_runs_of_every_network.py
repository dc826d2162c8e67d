"""A run of every network: trained, tested, classified with, explained, and loaded by transformers."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from answers import Answer

from capstext import Classifier
from capstext.models import MODELS, reads_images

TEXTS = ["truly great acting", "what a boring story", "film", "unheard of"]


@pytest.mark.parametrize("name", [name for name in MODELS if not reads_images(name)])
def test_a_run_is_trained_evaluated_classified_with_and_loaded_by_transformers(
    name: str, reviews: Path, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    run = tmp_path / "run"
    settings = ["embeddings.mode=random", "embeddings.dim=16", "embeddings.dropout=0", f"model.name={name}"]
    settings += ["training.epochs=4", "training.learning_rate=0.02", "training.batch_size=8"]
    trained = command("train", "--data", reviews, "--out", run, *(f"--set={each}" for each in settings))
    assert trained.code == 0, trained.err
    evaluated = command("evaluate", run, "--data", reviews, "--json")
    assert evaluated.code == 0, evaluated.err
    assert json.loads(evaluated.out)["accuracy"] > 0.9

    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join([*TEXTS, ""]) + "\n")
    classified = command("classify", run, lines, "--explain", "--format", "jsonl")
    assert classified.code == 0, classified.err
    answers = [json.loads(line) for line in classified.out.splitlines()]
    assert [answer["label"] for answer in answers[:2]] == ["good", "bad"]
    assert len(answers) == 5

    expected = Classifier.load(run).predict_proba(TEXTS)
    batch = AutoTokenizer.from_pretrained(run)(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        logits = AutoModelForSequenceClassification.from_pretrained(run)(**batch).logits
    np.testing.assert_allclose(logits.softmax(dim=-1).numpy(), expected, atol=1e-5)
