"""Bags of word n-grams: numbers of tokens in, a weighted sum over the n-grams of each text out.

An n-gram is one integer, the digits of which are its tokens' numbers, so that a list of them is a tensor.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from capstext.embeddings import TokenIds

LARGEST = 2**63 - 1

# Weights of the features and a bias, of one yes-or-no problem.
Hyperplane = tuple[NDArray[np.float64], float]


class NgramBag(nn.Module):
    """The n-grams of 1 to `ngrams` words that training texts have, with a weight for each class.

    An n-gram counts if `min_count` training texts have it; of these the `features` most frequent are kept.
    """

    keys: Tensor

    def __init__(
        self, *, in_dim: int, classes: int, ngrams: int, min_count: int, features: int | None
    ) -> None:
        super().__init__()
        if in_dim != 1:
            raise ValueError(f"a bag of n-grams reads one number a token, not vectors of {in_dim}")
        self.ngrams, self.min_count, self.features = ngrams, min_count, features
        self.register_buffer("keys", torch.zeros(features or 1, dtype=torch.int64))
        self.weights = nn.Parameter(torch.zeros(features or 1, classes))
        self.bias = nn.Parameter(torch.zeros(classes))

    def count(self, embedded: Float[Tensor, "B L 1"]) -> tuple[Int[Tensor, "B P"], Int[Tensor, "B P"]]:
        """Places of each text's n-grams in the list, and counts: 0 where it is unknown or was met before."""
        codes = torch.cat(self._codes(embedded.squeeze(-1).long()), dim=-1)
        places = torch.searchsorted(self.keys, codes).clamp(max=len(self.keys) - 1)
        known = (codes > 0) & (self.keys[places] == codes)
        places = places.masked_fill(~known, len(self.keys)).sort(dim=-1).values
        first, after = (torch.searchsorted(places, places, right=right) for right in (False, True))
        counted = (first == torch.arange(places.shape[-1], device=places.device)) & (places < len(self.keys))
        return places.clamp(max=len(self.keys) - 1), (after - first) * counted

    def log_odds(
        self, places: Int[Tensor, "B P"], values: Float[Tensor, "B P"]
    ) -> Float[Tensor, "B classes"]:
        summed = functional.embedding_bag(places, self.weights, per_sample_weights=values, mode="sum")
        return summed + self.bias

    def sizes(self, rows: Sequence[Sequence[int]]) -> dict[str, int]:
        """How many n-grams `learn` will keep."""
        return {"features": len(self._kept(*self._documents(rows)))}

    @torch.no_grad()
    def learn(self, rows: Sequence[Sequence[int]]) -> Any:
        """Take over the n-grams of the training texts; gives their counts, sparse [rows, features]."""
        codes, counts = self._documents(rows)
        kept = self._kept(codes, counts)
        self.keys.copy_(torch.from_numpy(codes[kept]))
        return counts[:, kept]

    @torch.no_grad()
    def take(self, weights: NDArray[np.float64], bias: NDArray[np.float64]) -> None:
        """Weights [features, classes] and bias as a solver found them."""
        self.weights.copy_(torch.from_numpy(weights))
        self.bias.copy_(torch.from_numpy(bias))

    def _codes(self, numbers: Int[Tensor, "*B L"]) -> list[Int[Tensor, "*B _"]]:
        """Each n-gram as a number to base `_base`, shorter ones first; 0 where a token is missing."""
        found = []
        for size in range(1, min(self.ngrams, numbers.shape[-1]) + 1):
            last = numbers.shape[-1] - size + 1
            codes = torch.zeros_like(numbers[..., :last])
            whole = torch.ones_like(codes, dtype=torch.bool)
            for place in range(size):
                digit = numbers[..., place : place + last]
                codes = codes * self._base + digit
                whole &= (digit > 0) & (digit < self._base)
            found.append(codes * whole)
        return found

    @property
    def _base(self) -> int:
        """The largest base in which `ngrams` digits fit 63 bits."""
        base = int(LARGEST ** (1 / self.ngrams)) + 1
        while base**self.ngrams > LARGEST:
            base -= 1
        return base

    def _documents(self, rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], Any]:
        """All n-grams of the rows, sorted, and how often each row has them, as a sparse matrix."""
        from scipy.sparse import csr_array

        # one long text, with no token after each row
        ids = np.fromiter(chain.from_iterable(chain(row, (-1,)) for row in rows), dtype=np.int64)
        numbers = TokenIds.numbers(ids)
        if numbers.max(initial=0) >= self._base:
            raise ValueError(
                f"n-grams of {self.ngrams} among {numbers.max():,} words do not fit 63 bits; "
                f"lower model.ngrams, or tokens.vocabulary to {self._base - 2:,}"
            )
        row_of = np.cumsum(numbers == 0) - (numbers == 0)
        by_size = [codes.numpy() for codes in self._codes(torch.from_numpy(numbers))]
        owners = np.concatenate([row_of[: len(codes)][codes > 0] for codes in by_size])
        codes, places = np.unique(
            np.concatenate([codes[codes > 0] for codes in by_size]), return_inverse=True
        )
        # scikit-learn takes indices of 32 bits only
        where = (owners.astype(np.int32), places.astype(np.int32))
        counts = csr_array((np.ones(len(owners)), where), shape=(len(rows), len(codes)))
        counts.sum_duplicates()
        return codes, counts

    def _kept(self, codes: NDArray[np.int64], counts: Any) -> NDArray[np.intp]:
        texts = np.bincount(counts.indices, minlength=len(codes))
        enough = np.flatnonzero(texts >= self.min_count)
        if not len(enough):
            raise ValueError(f"no n-gram stands in {self.min_count} training texts; lower model.min_count")
        by_frequency = enough[np.argsort(-texts[enough], kind="stable")]
        return np.sort(by_frequency[: self.features])


def one_by_one(
    targets: NDArray[np.bool_],
    *,
    features: int,
    multi_label: bool,
    solve: Callable[[NDArray[np.bool_]], Hyperplane],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A yes-or-no problem for each class: weights [features, classes] and bias [classes].

    Of two classes that exclude each other one problem is solved, and halved, so that the difference of the
    log-odds is its answer.
    """

    def solved(truth: NDArray[np.bool_]) -> Hyperplane:
        yes, no = int(truth.sum()), int((~truth).sum())
        if yes and no:
            return solve(truth)
        # nothing to tell apart: the answer is the frequency, with one example more each (Laplace)
        return np.zeros(features), float(np.log((yes + 1) / (no + 1)))

    if targets.shape[1] == 2 and not multi_label:
        weights, bias = solved(targets[:, 1])
        return np.stack([-weights / 2, weights / 2], axis=1), np.array([-bias / 2, bias / 2])
    solutions = [solved(truth) for truth in targets.T]
    return np.stack([weights for weights, _ in solutions], axis=1), np.array([bias for _, bias in solutions])
