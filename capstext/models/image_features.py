"""Convolutions before capsules or dense layers: pixels in, features of places out."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


def places(size: int, *, window: int, stride: int, name: str = "window") -> int:
    """How many windows fit a row of `size` places."""
    if not 1 <= window <= size:
        raise ValueError(f"{name} {window} does not fit the {size} places that are left of the image")
    return (size - window) // stride + 1


class ConvolutionStack(nn.Module):
    """Padded convolutions, each normalised over the batch (Ioffe & Szegedy 2015) and cut at 0."""

    def __init__(
        self,
        *,
        channels: int,
        filters: Sequence[int],
        kernels: Sequence[int],
        strides: Sequence[int],
    ) -> None:
        super().__init__()
        if not len(filters) == len(kernels) == len(strides):
            raise ValueError(
                "filters, kernels and strides must be as many, "
                f"not {len(filters)}, {len(kernels)} and {len(strides)}"
            )
        even = [kernel for kernel in kernels if kernel % 2 == 0]
        if even:
            raise ValueError(f"kernels must be odd, not {even[0]}")
        self.filters, self.strides = filters[-1], tuple(strides)
        layers: list[nn.Module] = []
        before = channels
        for count, kernel, stride in zip(filters, kernels, strides, strict=True):
            layers += [
                nn.Conv2d(before, count, kernel, stride=stride, padding=kernel // 2, bias=False),
                nn.BatchNorm2d(count),
                nn.ReLU(),
            ]
            before = count
        self.layers = nn.Sequential(*layers)

    def size(self, pixels: int) -> int:
        """How many places are left of a row of pixels."""
        for stride in self.strides:
            pixels = -(-pixels // stride)
        return pixels

    def forward(self, pixels: Float[Tensor, "B C H W"]) -> Float[Tensor, "B F h w"]:
        return self.layers(pixels.to(memory_format=torch.channels_last))
