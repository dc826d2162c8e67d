"""Each image network on the whole way: trained by its name, saved, read back, asked."""

from pathlib import Path

import numpy as np
import pytest
import torch
from image_networks import SMALL

from capstext import experiment
from capstext.config import parse
from capstext.data.images import load_images
from capstext.image_classifier import ImageClassifier
from capstext.preparation import prepare


@pytest.mark.parametrize("name", SMALL)
def test_a_run_is_trained_saved_and_gives_the_same_answers_when_read_back(name: str, tmp_path: Path) -> None:
    options = {key: list(value) if isinstance(value, tuple) else value for key, value in SMALL[name].items()}
    config = parse(
        {
            "data": {"name": "digits"},
            "model": {"name": name, **options},
            "routing": "em" if name == "matrix-capsules" else "dynamic",
            "images": {"shift": 1},
            "training": {"epochs": 1, "batch_size": 50},
        }
    )
    prepared = prepare(config)
    finished = experiment.train(prepared, tmp_path / "run", command="a test")
    assert 0 <= finished.metrics["test"]["accuracy"] <= 1
    pixels = load_images("digits").splits["test"].pixels[:5]
    model = prepared.model.eval()
    with torch.no_grad():
        expected = model.calibrated(torch.from_numpy(np.moveaxis(pixels, -1, 1).copy())).softmax(dim=-1)
    found = ImageClassifier.load(tmp_path / "run").predict_proba(list(pixels))
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
