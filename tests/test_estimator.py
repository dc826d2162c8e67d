"""scikit-learn's habits: clone, score, predict what was learned."""

import csv
from pathlib import Path

import numpy as np
from sklearn.base import clone

from capstext.estimator import CapsuleClassifier

SETTINGS = [
    *("embeddings.mode=random", "embeddings.dim=12", "embeddings.dropout=0", "model.name=capsule-a"),
    *("model.filters=8", "training.batch_size=4", "training.learning_rate=0.01"),
]


def test_fit_predict_and_score_as_scikit_learn_has_them(reviews: Path, tmp_path: Path) -> None:
    with open(reviews) as file:
        rows = list(csv.DictReader(file))
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    estimator = clone(CapsuleClassifier(settings=SETTINGS, out=tmp_path / "run")).fit(texts, labels)
    assert estimator.score(texts, labels) > 0.9
    assert estimator.classes_.tolist() == ["bad", "good"]
    np.testing.assert_allclose(estimator.predict_proba(texts[:3]).sum(axis=1), 1, rtol=1e-5)
    assert (tmp_path / "run" / "model.safetensors").exists()
