"""fastText: numbers of tokens in, log-odds a class out."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

# A product of two hashes below the prime fits 63 bits, so the hash is the same on every machine.
PRIME = 2**31 - 1
MULTIPLIER = 1_103_515_245


class FastText(nn.Module):
    """The mean of the vectors of words and of n-grams, then one linear layer. Joulin et al. 2017, section 2.

    Each of the first `words` tokens has a vector of its own; n-grams of 2 to `ngrams` words share `buckets`
    vectors by a hash.
    """

    reads_ids = True

    def __init__(
        self,
        *,
        in_dim: int,
        classes: int,
        words: int | None = None,
        dim: int = 10,
        ngrams: int = 2,
        buckets: int = 2**18,
    ) -> None:
        super().__init__()
        if in_dim != 1:
            raise ValueError(f"fasttext reads one number a token, not vectors of {in_dim}")
        self.words, self.ngrams, self.buckets = words or 1, ngrams, buckets
        rows = self.words + (buckets if ngrams > 1 else 0)
        self.vectors = nn.Parameter(torch.empty(rows, dim).uniform_(-1 / dim, 1 / dim))
        self.output = nn.Linear(dim, classes)

    def forward(
        self, embedded: Float[Tensor, "B L 1"], mask: Bool[Tensor, "B L"]
    ) -> Float[Tensor, "B classes"]:
        rows, found = self._rows(embedded.squeeze(-1).long())
        share = found / found.sum(dim=-1, keepdim=True).clamp(min=1)
        mean = functional.embedding_bag(
            rows, self.vectors, per_sample_weights=share.to(self.vectors.dtype), mode="sum"
        )
        return self.output(mean)

    def sizes(self, rows: Sequence[Sequence[int]], *, words: int) -> dict[str, int]:
        return {"words": words}

    def _rows(self, numbers: Int[Tensor, "B L"]) -> tuple[Int[Tensor, "B P"], Bool[Tensor, "B P"]]:
        """Which vectors a text has; those of missing tokens, and of n-grams with one, do not count."""
        whole = numbers > 0
        rows, found = [(numbers - 1).clamp(0, self.words - 1)], [whole]
        hashes = numbers
        for size in range(2, min(self.ngrams, numbers.shape[1]) + 1):
            following = numbers[:, size - 1 :]
            hashes = (hashes[:, :-1] * MULTIPLIER + following) % PRIME
            whole = whole[:, :-1] & (following > 0)
            rows.append(self.words + hashes % self.buckets)
            found.append(whole)
        return torch.cat(rows, dim=1), torch.cat(found, dim=1)
