"""The classifier as scikit-learn knows them: fit, predict, predict_proba."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from capstext import config, experiment
from capstext.classifier import Classifier
from capstext.preparation import prepare


class CapsuleClassifier(ClassifierMixin, BaseEstimator):
    """What `capstext train` makes; `settings` are changes to its defaults, such as "training.epochs=3"."""

    def __init__(self, settings: Sequence[str] = (), out: str | Path | None = None) -> None:
        self.settings = settings
        self.out = out

    def fit(self, texts: Sequence[str], labels: Sequence[str]) -> "CapsuleClassifier":
        """Train on texts with a label each; a tenth of them chooses the epoch. `out` keeps the run folder."""
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder, "texts.jsonl")
            rows = ({"text": text, "label": str(label)} for text, label in zip(texts, labels, strict=True))
            data.write_text("".join(json.dumps(row) + "\n" for row in rows))
            out = Path(self.out or Path(folder, "run"))
            chosen = config.load(None, overrides=[f"data.name={data}", *self.settings])
            prepared = prepare(chosen)
            experiment.train(prepared, out, command="CapsuleClassifier.fit")
            self.classifier_ = Classifier.load(out)
        self.classes_ = np.array(self.classifier_.classes)
        return self

    def predict_proba(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.classifier_.predict_proba(texts)

    def predict(self, texts: Sequence[str]) -> NDArray[Any]:
        return self.classes_[self.predict_proba(texts).argmax(axis=1)]
