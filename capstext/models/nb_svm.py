"""A support vector machine on naive Bayes features: numbers of tokens in, log-odds a class out."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor, nn

from capstext.models.bags import Hyperplane, NgramBag, one_by_one

MOST_ITERATIONS = 10_000


class NaiveBayesSvm(nn.Module):
    """The n-grams of a text by their log-count ratios, and an SVM on them. Wang & Manning 2012, section 2.3.

    `alpha` smooths the counts; `beta` is the SVM's share, the rest is naive Bayes scaled to the SVM's mean
    weight; `strength` is the weight of the errors beside that of the squared norm.
    """

    reads_ids = True

    def __init__(
        self,
        *,
        in_dim: int,
        classes: int,
        ngrams: int = 2,
        min_count: int = 2,
        features: int | None = None,
        alpha: float = 1.0,
        beta: float = 0.25,
        strength: float = 1.0,
    ) -> None:
        super().__init__()
        if not alpha > 0 or not strength > 0:
            raise ValueError(f"alpha and strength must be over 0, not {alpha} and {strength}")
        if not 0 <= beta <= 1:
            raise ValueError(f"beta must be 0 to 1, not {beta}")
        self.alpha, self.beta, self.strength = alpha, beta, strength
        self.bag = NgramBag(
            in_dim=in_dim, classes=classes, ngrams=ngrams, min_count=min_count, features=features
        )

    def forward(
        self, embedded: Float[Tensor, "B L 1"], mask: Bool[Tensor, "B L"]
    ) -> Float[Tensor, "B classes"]:
        places, counts = self.bag.count(embedded)
        return self.bag.log_odds(places, (counts > 0).to(self.bag.weights.dtype))

    def sizes(self, rows: Sequence[Sequence[int]], *, words: int) -> dict[str, int]:
        return self.bag.sizes(rows)

    def solve(self, rows: Sequence[Sequence[int]], targets: Tensor, *, multi_label: bool, seed: int) -> None:
        from sklearn.svm import LinearSVC

        present = self.bag.learn(rows).sign()

        def solve(truth: NDArray[np.bool_]) -> Hyperplane:
            ratio = self._log_count_ratio(present[truth].sum(axis=0), present[~truth].sum(axis=0))
            machine = LinearSVC(C=self.strength, max_iter=MOST_ITERATIONS, random_state=seed)
            machine.fit(present.multiply(ratio).tocsr(), truth)
            weights = machine.coef_[0]
            mixed = (1 - self.beta) * np.abs(weights).mean() + self.beta * weights
            return ratio * mixed, float(machine.intercept_[0])

        truth = targets.bool().numpy()
        self.bag.take(*one_by_one(truth, features=present.shape[1], multi_label=multi_label, solve=solve))

    def _log_count_ratio(self, yes: NDArray[np.float64], no: NDArray[np.float64]) -> NDArray[np.float64]:
        yes, no = yes + self.alpha, no + self.alpha
        return np.log(yes / yes.sum()) - np.log(no / no.sum())
