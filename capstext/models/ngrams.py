"""Features of words in a row: what convolutional networks and capsules read first."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional


class NgramConvolution(nn.Module):
    """Features of n words in a row. Zhao et al. 2018, section 2.1.

    A wide convolution (Kalchbrenner et al. 2014, section 2.2) reaches over both ends of a text: each word
    takes every place in an n-gram, as in the code released with Kim 2014. A narrow one has n-grams of n
    words only, and one, filled up, where a text is shorter.
    """

    def __init__(self, *, in_dim: int, filters: int, size: int, stride: int = 1, wide: bool = True) -> None:
        super().__init__()
        self.size, self.stride, self.wide = size, stride, wide
        self.convolution = nn.Conv1d(in_dim, filters, size, stride=stride)

    def forward(
        self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]
    ) -> tuple[Float[Tensor, "B P F"], Bool[Tensor, "B P"]]:
        over = self.size - 1
        before, after = (over, over) if self.wide else (0, max(self.size - mask.shape[1], 0))
        embedded = functional.pad(embedded, (0, 0, before, after))
        mask = functional.pad(mask, (before, after))
        features = self.convolution(embedded.mT).relu().mT
        words = mask.unfold(1, self.size, self.stride)
        if self.wide:
            return features, words.any(dim=-1)
        whole = words.all(dim=-1)
        first = mask.any(dim=-1, keepdim=True) | whole[:, :1]
        return features, torch.cat([first, whole[:, 1:]], dim=1)
