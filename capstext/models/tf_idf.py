"""TF-IDF and a linear classifier, fitted by scikit-learn: numbers of tokens in, log-odds a class out."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from capstext.models.bags import Hyperplane, NgramBag, one_by_one

# Enough for every data set tried; the solvers stop long before where they can.
MOST_ITERATIONS = 10_000


class TfIdf(nn.Module):
    """N-grams weighed by frequency here and rarity elsewhere (Salton & Buckley 1988), texts of length 1.

    The classifier is a support vector machine (Joachims 1998) or a logistic regression; `strength` is the
    weight of the errors beside that of the squared norm.
    """

    reads_ids = True
    idf: Tensor

    def __init__(
        self,
        *,
        in_dim: int,
        classes: int,
        ngrams: int = 2,
        min_count: int = 2,
        features: int | None = None,
        sublinear: bool = True,
        classifier: Literal["svm", "logistic"] = "svm",
        strength: float = 1.0,
    ) -> None:
        super().__init__()
        if not strength > 0:
            raise ValueError(f"strength must be over 0, not {strength}")
        self.sublinear, self.classifier, self.strength = sublinear, classifier, strength
        self.bag = NgramBag(
            in_dim=in_dim, classes=classes, ngrams=ngrams, min_count=min_count, features=features
        )
        self.register_buffer("idf", torch.ones(features or 1))

    def forward(
        self, embedded: Float[Tensor, "B L 1"], mask: Bool[Tensor, "B L"]
    ) -> Float[Tensor, "B classes"]:
        places, counts = self.bag.count(embedded)
        frequency = counts.to(self.idf.dtype)
        if self.sublinear:
            frequency = torch.where(counts > 0, 1 + frequency.clamp(min=1).log(), 0.0)
        return self.bag.log_odds(places, functional.normalize(frequency * self.idf[places], dim=-1))

    def sizes(self, rows: Sequence[Sequence[int]], *, words: int) -> dict[str, int]:
        return self.bag.sizes(rows)

    @torch.no_grad()
    def solve(self, rows: Sequence[Sequence[int]], targets: Tensor, *, multi_label: bool, seed: int) -> None:
        from sklearn.feature_extraction.text import TfidfTransformer

        weighing = TfidfTransformer(sublinear_tf=self.sublinear)
        texts = weighing.fit_transform(self.bag.learn(rows))
        self.idf.copy_(torch.from_numpy(weighing.idf_))
        truth = targets.bool().numpy()
        if self.classifier == "logistic" and not multi_label and truth.shape[1] > 2:
            self.bag.take(*self._multinomial(texts, truth))
            return

        def solve(truth: NDArray[np.bool_]) -> Hyperplane:
            found = self._estimator(seed).fit(texts, truth)
            return found.coef_[0], float(found.intercept_[0])

        self.bag.take(*one_by_one(truth, features=texts.shape[1], multi_label=multi_label, solve=solve))

    def _estimator(self, seed: int) -> Any:
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import LinearSVC

        if self.classifier == "svm":
            return LinearSVC(C=self.strength, max_iter=MOST_ITERATIONS, random_state=seed)
        return LogisticRegression(C=self.strength, max_iter=MOST_ITERATIONS)

    def _multinomial(
        self, texts: Any, truth: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """One regression for all classes; one without examples keeps a bias that makes it unlikely."""
        weights = np.zeros((texts.shape[1], truth.shape[1]))
        bias = np.full(truth.shape[1], -np.log(len(truth) + 1))
        found = self._estimator(0).fit(texts, truth.argmax(axis=1))
        weights[:, found.classes_], bias[found.classes_] = found.coef_.T, found.intercept_
        return weights, bias
