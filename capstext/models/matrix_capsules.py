"""Matrix capsules of Hinton et al. 2018: pixels in, log-odds a class out."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capstext.capsules import CapsuleImage, ConvolutionalCapsules2d, Route
from capstext.models.image_features import places
from capstext.routing import VOTES, Routed, Routing


class PrimaryMatrixCapsules(nn.Module):
    """Features of a place become poses, and activations of their own. Hinton et al. 2018, section 4."""

    def __init__(self, *, features: int, capsules: int, dim: int) -> None:
        super().__init__()
        self.capsules, self.dim = capsules, dim
        self.poses = nn.Conv2d(features, capsules * dim, 1)
        self.activation = nn.Conv2d(features, capsules, 1)

    def forward(self, features: Float[Tensor, "B F H W"]) -> CapsuleImage:
        poses = self.poses(features).float().permute(0, 2, 3, 1).unflatten(-1, (self.capsules, self.dim))
        return CapsuleImage(poses, self.activation(features).float().permute(0, 2, 3, 1).sigmoid())

    def scale_weights(self, features: Float[Tensor, "B F H W"]) -> None:
        """Poses of mean square 1."""
        size = self.poses(features).square().mean().sqrt().clamp(min=1e-6)
        self.poses.weight /= size
        if self.poses.bias is not None:
            self.poses.bias /= size


class MatrixClassCapsules(nn.Module):
    """Route matrix capsules to the classes, all places with the same weights. Hinton et al. 2018, section 4.

    Coordinate addition: the first two numbers of the last column of a vote are moved by the place of its
    capsule, 0 to 1 down and across the image. A column of places beside each pose, and a row (0, ..., 0, 1)
    under each weight, do just that.
    """

    coordinates: Tensor
    last_row: Tensor

    def __init__(
        self, *, in_capsules: int, side: int, down: int, across: int, classes: int, routing: Routing
    ) -> None:
        super().__init__()
        self.side, self.places, self.routing = side, down * across, routing
        deviation = routing.deviation(children=self.places * in_capsules, parents=classes, dim=side)
        self.weights = nn.Parameter(torch.randn(in_capsules, classes, side, side) * deviation)
        self.learned = routing.learned(classes)
        rows, columns = ((torch.arange(size) + 0.5) / size for size in (down, across))
        place = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), dim=-1).reshape(-1, 2)
        column = nn.functional.pad(place.repeat_interleave(in_capsules, dim=0), (0, side - 2))
        self.register_buffer("coordinates", column.unsqueeze(-1), persistent=False)  # [I, side, 1]
        self.register_buffer("last_row", torch.eye(side)[-1:], persistent=False)

    def forward(
        self,
        children: Float[Tensor, "B I d"],
        activation: Float[Tensor, "B I"],
        record: list[Tensor] | None = None,
    ) -> Routed:
        column = self.coordinates.expand(len(children), -1, -1, -1)
        poses = torch.cat([children.unflatten(-1, (self.side, self.side)), column], dim=-1)
        row = self.last_row.expand(*self.weights.shape[:2], -1, -1)
        weights = torch.cat([self.weights, row], dim=-2).repeat(self.places, 1, 1, 1)
        votes = VOTES["full-matrix"](children=poses.flatten(-2), weights=weights, activation=activation)
        return self.routing(votes, training=self.training, learned=dict(self.learned.items()), record=record)


class MatrixCapsules(nn.Module):
    """A convolution, primary capsules, convolutional capsules, class capsules. Hinton et al. 2018, figure 1.

    The paper's letters: A is `filters`, B `primary_capsules`, C and D are `capsules`, K `windows`. Its
    children share themselves among the parents of all windows that they are in; ours do so in each window
    alone. `normalised` puts batch normalisation, which it has not, behind the convolution: the net then
    learns faster.
    """

    def __init__(
        self,
        *,
        channels: int,
        height: int,
        width: int,
        classes: int,
        routing: Routing,
        filters: int = 64,
        primary_capsules: int = 8,
        capsules: tuple[int, ...] = (16, 16),
        side: int = 4,
        kernel: int = 5,
        stride: int = 2,
        windows: tuple[int, ...] = (3, 3),
        strides: tuple[int, ...] = (2, 1),
        normalised: bool = False,
    ) -> None:
        super().__init__()
        if not len(capsules) == len(windows) == len(strides):
            raise ValueError(
                "capsules, windows and strides must be as many, "
                f"not {len(capsules)}, {len(windows)} and {len(strides)}"
            )
        if side < 2:
            raise ValueError(f"side must be at least 2, for two coordinates, not {side}")
        left = [places(size, window=kernel, stride=stride, name="kernel") for size in (height, width)]
        convolution = nn.Conv2d(channels, filters, kernel, stride=stride)
        normalisation = [nn.BatchNorm2d(filters)] if normalised else []
        self.features = nn.Sequential(convolution, *normalisation, nn.ReLU())
        self.primary = PrimaryMatrixCapsules(features=filters, capsules=primary_capsules, dim=side * side)
        self.convolutional = nn.Sequential()
        for (before, after), window, step in zip(
            pairwise((primary_capsules, *capsules)), windows, strides, strict=True
        ):
            left = [places(size, window=window, stride=step) for size in left]
            self.convolutional.append(
                ConvolutionalCapsules2d(
                    in_capsules=before,
                    in_dim=side * side,
                    out_capsules=after,
                    out_dim=side * side,
                    window=window,
                    stride=step,
                    routing=routing,
                    weights="full-matrix",
                )
            )
        self.classes = MatrixClassCapsules(
            in_capsules=capsules[-1],
            side=side,
            down=left[0],
            across=left[1],
            classes=classes,
            routing=routing,
        )

    @torch.no_grad()
    def scale_weights(self, pixels: Float[Tensor, "B C H W"]) -> None:
        """Let the signal of these images reach the class capsules. Mishkin & Matas 2016: layer by layer."""
        if self.classes.routing.name != "em":
            return
        training = self.training
        self.train()  # normalised over these images, as it will be over batches
        features = self.features(pixels)
        self.primary.scale_weights(features)
        image = self.primary(features)
        for layer in self.convolutional:
            _start(cast(ConvolutionalCapsules2d, layer).route, image.poses, partial(layer, image))
            image = layer(image)
        children = image.flat()
        _start(self.classes, children.poses, partial(self.classes, *children))
        self.train(training)

    def voters(self, pixels: Float[Tensor, "B C H W"]) -> CapsuleImage:
        """The last convolutional capsules, which are routed to the classes."""
        return self.convolutional(self.primary(self.features(pixels)))

    def capsules(self, pixels: Float[Tensor, "B C H W"]) -> Routed:
        """The class capsules."""
        return self.classes(*self.voters(pixels).flat())

    def forward(self, pixels: Float[Tensor, "B C H W"]) -> Float[Tensor, "B classes"]:
        return torch.logit(self.capsules(pixels).activation, eps=1e-6)


def _start(
    route: Route | MatrixClassCapsules, poses: Tensor, routed: Callable[[], CapsuleImage | Routed]
) -> None:
    """Votes of variance 1 by such poses and random weights, and then activations of about a half."""
    size = poses.square().mean().sqrt() * route.weights.square().mean().sqrt()
    route.weights.div_((size * math.sqrt(route.weights.shape[-2])).clamp(min=1e-6))
    options = route.routing.options
    # β_a moves the log-odds by so much of itself.
    slope = options.get("inverse_temperature", 1.0) * (1 - 0.95 ** options.get("iterations", 3))
    for _ in range(20):  # once is enough where no activation is 0 or 1
        log_odds = routed().activation.double().clamp(1e-30, 1 - 1e-7).logit().mean()
        if log_odds.abs() < 0.1:
            break
        route.learned["beta_a"] -= log_odds / slope
