"""Features of words in a row: what convolutional networks and capsules read first."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional


class NgramConvolution(nn.Module):
    """Features of n words in a row; a shorter text has one n-gram, padded. Zhao et al. 2018, section 2.1."""

    def __init__(self, *, in_dim: int, filters: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.size, self.stride = size, stride
        self.convolution = nn.Conv1d(in_dim, filters, size, stride=stride)

    def forward(
        self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]
    ) -> tuple[Float[Tensor, "B P F"], Bool[Tensor, "B P"]]:
        short = self.size - mask.shape[1]
        if short > 0:
            embedded = functional.pad(embedded, (0, 0, 0, short))
            mask = functional.pad(mask, (0, short))
        features = self.convolution(embedded.mT).relu().mT
        whole = mask.unfold(1, self.size, self.stride).all(dim=-1)
        first = mask.any(dim=-1, keepdim=True) | whole[:, :1]
        return features, torch.cat([first, whole[:, 1:]], dim=1)
