"""One vector a text and a linear layer on it: embedded words in, log-odds a class out."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class PooledText(nn.Module):
    """On word vectors a classifier of their mean; on a transformer the usual baseline.

    Pooling `mean` suits sentence encoders (Reimers & Gurevych 2019, section 3), `first` is BERT's [CLS]
    (Devlin et al. 2019, section 3.2), `max` the largest of each number. A text without words has the output's
    bias as log-odds.
    """

    def __init__(
        self,
        *,
        in_dim: int,
        classes: int,
        pooling: Literal["mean", "first", "max"] = "mean",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(in_dim, classes)

    def forward(
        self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]
    ) -> Float[Tensor, "B classes"]:
        return self.output(self.dropout(self._pooled(embedded, mask)))

    def _pooled(self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]) -> Float[Tensor, "B E"]:
        if self.pooling == "first":
            return embedded[:, 0]
        if self.pooling == "mean":
            return embedded.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)
        largest = embedded.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(dim=1)
        return torch.where(mask.any(dim=1, keepdim=True), largest, 0.0)
