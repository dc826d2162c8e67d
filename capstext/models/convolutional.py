"""Convolutional networks: embedded words in, log-odds a class out."""

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from capstext.models.ngrams import NgramConvolution


class ConvolutionalText(nn.Module):
    """The strongest n-gram for each filter, then one linear layer. Kim 2014, section 2.

    His rand, static, non-static and multichannel are modes of the embedding. His two channels share filters,
    whose outputs are added up; ours stand side by side with filters of their own, which can learn the same.
    """

    def __init__(
        self,
        *,
        in_dim: int,
        classes: int,
        ngram_sizes: tuple[int, ...] = (3, 4, 5),
        filters: int = 100,
        wide: bool = True,
        dropout: float = 0.5,
        norm_limit: float | None = 3.0,
    ) -> None:
        super().__init__()
        if norm_limit is not None and not norm_limit > 0:
            raise ValueError(f"norm_limit must be above 0, not {norm_limit}")
        self.norm_limit = norm_limit
        self.ngrams = nn.ModuleList(
            NgramConvolution(in_dim=in_dim, filters=filters, size=size, wide=wide) for size in ngram_sizes
        )
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(filters * len(ngram_sizes), classes)

    def forward(
        self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]
    ) -> Float[Tensor, "B classes"]:
        strongest = [
            _max_over_time(*cast(NgramConvolution, ngrams)(embedded, mask)) for ngrams in self.ngrams
        ]
        return self.output(self.dropout(torch.cat(strongest, dim=-1)))

    @torch.no_grad()
    def constrain(self) -> None:
        """Shorten the weights of a class to the limit, after each gradient step. Kim 2014, section 2.1."""
        if self.norm_limit is not None:
            self.output.weight.renorm_(2, 0, self.norm_limit)


class FlatConvolutionalText(nn.Module):
    """The CNN beside the capsules in the code released with Zhao et al. 2018: features kept by their places.

    The first `positions` words are read, as many as there; words that a shorter text lacks are zero.
    """

    def __init__(
        self,
        *,
        in_dim: int,
        classes: int,
        positions: int = 200,
        ngram_size: int = 3,
        filters: int = 32,
        hidden: int = 128,
    ) -> None:
        super().__init__()
        if positions < ngram_size:
            raise ValueError(f"positions must be at least ngram_size {ngram_size}, not {positions}")
        self.positions = positions
        self.convolution = nn.Conv1d(in_dim, filters, ngram_size, bias=False)
        self.hidden = nn.Linear(filters * (positions - ngram_size + 1), hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(
        self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]
    ) -> Float[Tensor, "B classes"]:
        # negative padding cuts; the mask is not asked: a masked word is zero, and a zero word adds nothing
        fitted = functional.pad(embedded, (0, 0, 0, self.positions - mask.shape[1]))
        features = self.convolution(fitted.mT).relu()
        return self.output(self.hidden(features.flatten(1)).relu())


def _max_over_time(features: Float[Tensor, "B P F"], places: Bool[Tensor, "B P"]) -> Float[Tensor, "B F"]:
    """Features are never below 0, so a masked place, and a text without words, counts as 0."""
    return (features * places.unsqueeze(-1)).amax(dim=1)
