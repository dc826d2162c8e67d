"""Runs of the networks that read ids: what they are told by the data, and what they do not need."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from answers import Answer

from capstext import Classifier, experiment, runs
from capstext import config as settings
from capstext.embeddings import TokenIds
from capstext.errors import UsageError
from capstext.estimator import CapsuleClassifier
from capstext.preparation import Prepared, prepare

COUNTERS = ["fasttext", "tf-idf", "nb-svm"]
SOLVED = ["tf-idf", "nb-svm"]
SMALL = {"fasttext": ["model.buckets=512"]}
every_counter = pytest.mark.parametrize("name", COUNTERS)
every_solved = pytest.mark.parametrize("name", SOLVED)


def prepared(name: str, data: Path, *overrides: str, said: list[str] | None = None) -> Prepared:
    small = [f"data.name={data}", f"model.name={name}", *SMALL.get(name, [])]
    config = settings.load(None, overrides=[*small, *overrides])
    return prepare(config, say=lambda message: said.append(message) if said is not None else None)


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Texts with none, one or two labels."""
    rows = []
    for number in range(40):
        rows += [
            {"text": f"wheat rises {number}", "labels": ["grain"]},
            {"text": f"crude falls {number}", "labels": ["oil"]},
            {"text": f"wheat and crude {number}", "labels": ["grain", "oil"]},
        ]
    path = tmp_path / "several.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@every_counter
def test_the_section_embeddings_is_not_used_and_that_is_said(name: str, reviews: Path) -> None:
    said: list[str] = []
    found = prepared(name, reviews, "embeddings.vectors=no-such-file", said=said)
    assert isinstance(found.model.embedding, TokenIds)
    assert said[-1] == f"{name} counts words: the section embeddings is not used"
    said.clear()
    prepared(name, reviews, said=said)
    assert not any("embeddings" in message or "vectors" in message for message in said)


@every_solved
def test_the_number_of_ngrams_is_counted_in_the_training_rows(name: str, reviews: Path) -> None:
    found = prepared(name, reviews, "model.min_count=1", "model.ngrams=1")
    words = {id for row in found.rows["train"].ids for id in row}
    assert found.config.model.options["features"] == len(words)
    assert found.model.network.bag.weights.shape == (len(words), 2)
    limited = prepared(name, reviews, "model.features=5")
    assert limited.config.model.options["features"] == 5


def test_fasttext_has_a_vector_for_every_word_of_the_tokenizer(reviews: Path) -> None:
    found = prepared("fasttext", reviews, "model.buckets=8")
    assert found.config.model.options["words"] == found.tokenizer.get_vocab_size()
    assert len(found.model.network.vectors) == found.tokenizer.get_vocab_size() + 8


def test_ngrams_that_do_not_fit_are_refused_before_training(reviews: Path) -> None:
    with pytest.raises(UsageError, match=r"model: n-grams of 30 among .* words do not fit 63 bits"):
        prepared("tf-idf", reviews, "model.ngrams=30")
    with pytest.raises(UsageError, match="model: no n-gram stands in 1000 training texts"):
        prepared("tf-idf", reviews, "model.min_count=1000")


@every_counter
@pytest.mark.parametrize("kind", ["word", "sentencepiece"])
def test_several_labels_and_every_tokenizer_are_learned(
    name: str, kind: str, several: Path, tmp_path: Path
) -> None:
    found = prepared(
        name, several, f"tokens.kind={kind}", "tokens.vocabulary=60", "training.learning_rate=0.05"
    )
    metrics = experiment.train(found, tmp_path / "run", command="").metrics
    assert metrics["test"]["micro"]["f1"] > 0.95
    predicted = Classifier.load(tmp_path / "run").predict(["wheat rises", "crude falls", "wheat and crude"])
    assert [sorted(labels) for labels in predicted] == [["grain"], ["oil"], ["grain", "oil"]]


@every_solved
def test_a_solved_run_reports_its_weights_and_one_validation(
    name: str, reviews: Path, tmp_path: Path
) -> None:
    found = prepared(name, reviews)
    metrics = experiment.train(found, tmp_path / "run", command="").metrics
    features = found.config.model.options["features"]
    assert metrics["parameters"] == metrics["trained_parameters"] == 2 * features + 2
    assert metrics["best_step"] == 0
    (entry,) = metrics["history"]
    assert entry["score"] == metrics["validation"]["accuracy"]
    assert not (tmp_path / "run" / "checkpoints").exists()


@every_counter
def test_a_plan_has_no_steps_where_there_is_nothing_to_step(
    name: str, reviews: Path, command: Callable[..., Answer]
) -> None:
    plan = command("train", "--data", reviews, "--dry-run", f"--set=model.name={name}")
    assert plan.code == 0, plan.err
    assert ("at_most: 0" in plan.out) == (name in SOLVED)


@every_solved
def test_a_solved_run_is_the_same_again_and_read_back_to_the_bit(
    name: str, reviews: Path, tmp_path: Path
) -> None:
    for folder in ("first", "second"):
        experiment.train(prepared(name, reviews), tmp_path / folder, command="")
    first, second = (runs.load(tmp_path / folder).model.state_dict() for folder in ("first", "second"))
    assert first["network.bag.keys"].dtype == torch.int64
    assert first["network.bag.weights"].any()
    assert all(torch.equal(tensor, second[key]) for key, tensor in first.items())
    again = experiment.train(prepared(name, reviews), tmp_path / "first", resume=True, command="")
    assert again.metrics == runs.load(tmp_path / "first").metrics


@every_counter
def test_classifying_needs_no_training_stack(name: str, reviews: Path, tmp_path: Path) -> None:
    experiment.train(prepared(name, reviews), tmp_path / "run", command="")
    code = """
import sys
from capstext import Classifier
Classifier.load(sys.argv[1]).predict(["a fine film"])
print([name for name in ("transformers", "datasets", "sklearn", "scipy") if name in sys.modules])
"""
    answer = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


@every_counter
def test_an_explanation_names_the_word_that_decided(
    name: str, reviews: Path, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    run = tmp_path / "run"
    trained = command("train", "--data", reviews, "--out", run, f"--set=model.name={name}")
    assert trained.code == 0, trained.err
    words = Classifier.load(run).explain("truly great acting", "good")
    assert max(words, key=lambda word: word.relevance).text == "great"


@every_counter
def test_a_pipeline_scores_as_the_classifier_does(name: str, reviews: Path, tmp_path: Path) -> None:
    from transformers import pipeline

    experiment.train(prepared(name, reviews), tmp_path / "run", command="")
    texts = ["truly great acting", "", "unheard of", "what a boring story " * 200]
    answers = pipeline("text-classification", model=str(tmp_path / "run"), top_k=None)(texts, batch_size=4)
    scores = [[entry["score"] for entry in sorted(row, key=lambda entry: entry["label"])] for row in answers]
    np.testing.assert_allclose(scores, Classifier.load(tmp_path / "run").predict_proba(texts), atol=1e-5)


@every_solved
def test_the_estimator_takes_it(name: str) -> None:
    texts = [f"{word} film {number}" for number in range(30) for word in ("fine", "dull")]
    labels = ["good", "bad"] * 30
    estimator = CapsuleClassifier(settings=[f"model.name={name}"]).fit(texts, labels)
    assert estimator.score(texts, labels) == 1.0
