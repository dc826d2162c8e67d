"""Images from class capsules: poses and a choice of classes in, pixels out."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class Decoder(nn.Module):
    """Draws the image that the chosen capsules describe. Sabour et al. 2017, section 4.1."""

    def __init__(
        self,
        *,
        classes: int,
        dim: int,
        channels: int,
        height: int,
        width: int,
        hidden: tuple[int, ...] = (512, 1024),
    ) -> None:
        super().__init__()
        self.shape = (channels, height, width)
        sizes = (classes * dim, *hidden)
        layers = [part for size in pairwise(sizes) for part in (nn.Linear(*size), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], channels * height * width), nn.Sigmoid())

    def forward(
        self, poses: Float[Tensor, "B classes D"], chosen: Bool[Tensor, "B classes"]
    ) -> Float[Tensor, "B C H W"]:
        masked = poses * chosen.unsqueeze(-1)
        return self.layers(masked.flatten(1)).unflatten(1, self.shape)


def most_active(activation: Float[Tensor, "B classes"], *, count: int = 1) -> Bool[Tensor, "B classes"]:
    """The `count` classes to draw where no label is known. Sabour et al. 2017, sections 4.1 and 6."""
    chosen = torch.zeros_like(activation, dtype=torch.bool)
    return chosen.scatter(1, activation.topk(count, dim=1).indices, True)


def reconstruction_error(
    drawn: Float[Tensor, "B C H W"], pixels: Float[Tensor, "B C H W"]
) -> Float[Tensor, ""]:
    """The sum of squared differences of an image, mean over the batch. Sabour et al. 2017, section 4.1."""
    return (drawn - pixels).square().sum(dim=(1, 2, 3)).mean()
