"""Capsule layers over sequences and images: features in, capsules out; the routing is handed in."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from capstext.routing import VOTES, Routed, Routing
from capstext.routing.kinds import weights_shape
from capstext.routing.squash import length, squash_by_name
from capstext.routing.windows import image_windows, sequence_windows


class CapsuleSequence(NamedTuple):
    """C capsules at each of P positions; poses and activations are exactly 0 where the mask is False."""

    poses: Float[Tensor, "B P C d"]
    activation: Float[Tensor, "B P C"]
    mask: Bool[Tensor, "B P"]

    def flat(self) -> Routed:
        """All capsules of a text in a row: poses [B, P*C, d], activation [B, P*C]."""
        return Routed(self.poses.flatten(1, 2), self.activation.flatten(1, 2))


class CapsuleImage(NamedTuple):
    """C capsules at each of H x W places."""

    poses: Float[Tensor, "B H W C d"]
    activation: Float[Tensor, "B H W C"]

    def flat(self) -> Routed:
        """All capsules of an image in a row: poses [B, H*W*C, d], activation [B, H*W*C]."""
        return Routed(self.poses.flatten(1, 3), self.activation.flatten(1, 3))


class PrimaryCapsules1d(nn.Module):
    """Features of each position become capsules. Zhao et al. 2018, section 2.2."""

    def __init__(self, *, features: int, capsules: int, dim: int, squash: str = "sabour") -> None:
        super().__init__()
        self.capsules, self.dim = capsules, dim
        self.squash = squash_by_name(squash)
        self.linear = nn.Linear(features, capsules * dim)
        nn.init.normal_(self.linear.weight, std=1 / math.sqrt(dim))
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Float[Tensor, "B P F"], mask: Bool[Tensor, "B P"]) -> CapsuleSequence:
        poses = self.linear(features).float().unflatten(-1, (self.capsules, self.dim))
        poses = self.squash(poses) * mask[:, :, None, None]
        return CapsuleSequence(poses, length(poses), mask)


class PrimaryCapsules2d(nn.Module):
    """A convolution whose channels are capsules. Sabour et al. 2017, section 4."""

    def __init__(
        self,
        *,
        features: int,
        capsules: int,
        dim: int,
        window: int,
        stride: int = 1,
        groups: int = 1,
        squash: str = "sabour",
    ) -> None:
        super().__init__()
        self.capsules, self.dim = capsules, dim
        self.squash = squash_by_name(squash)
        self.convolution = nn.Conv2d(features, capsules * dim, window, stride=stride, groups=groups)
        nn.init.normal_(self.convolution.weight, std=1 / math.sqrt(dim * window * window))

    def forward(self, features: Float[Tensor, "B F H W"]) -> CapsuleImage:
        poses = self.convolution(features).float().permute(0, 2, 3, 1)
        poses = self.squash(poses.unflatten(-1, (self.capsules, self.dim)))
        return CapsuleImage(poses, length(poses))


class Route(nn.Module):
    """The weights of the votes and what the routing learns; a bias is one more input of value 1.

    Full weights are for each child of one place; all `places` have the same.
    """

    def __init__(
        self,
        *,
        children: int,
        in_dim: int,
        parents: int,
        out_dim: int,
        routing: Routing,
        weights: str = "shared",
        bias: bool = False,
        places: int = 1,
    ) -> None:
        super().__init__()
        shape = weights_shape(
            weights, children=children // places, parents=parents, in_dim=in_dim, out_dim=out_dim
        )
        if bias and weights not in ("shared", "full"):
            raise ValueError(f"a bias needs weights 'shared' or 'full', not {weights!r}")
        self.votes, self.routing = VOTES[weights], routing
        self.places = places if weights.startswith("full") else 1
        deviation = routing.deviation(children=children, parents=parents, dim=shape[-1])
        self.weights = nn.Parameter(torch.randn(shape) * deviation)
        self.bias = nn.Parameter(torch.zeros(*shape[:-2], 1, out_dim)) if bias else None
        self.learned = routing.learned(parents)

    def forward(
        self,
        children: Float[Tensor, "*lead I d"],
        activation: Float[Tensor, "*lead I"] | None,
        record: list[Tensor] | None = None,
    ) -> Routed:
        weights: Tensor = self.weights
        if self.bias is not None:
            weights = torch.cat([weights, self.bias], dim=-2)
            children = functional.pad(children, (0, 1), value=1.0)
        if self.places > 1:
            weights = weights.repeat(self.places, 1, 1, 1)
        votes = self.votes(children=children, weights=weights, activation=activation)
        return self.routing(votes, training=self.training, learned=dict(self.learned.items()), record=record)


class ConvolutionalCapsules1d(nn.Module):
    """Route the capsules of each window of positions to new capsules. Zhao et al. 2018, section 2.3.

    A window counts where all its positions are real; a text shorter than the window has its first window.
    """

    def __init__(
        self,
        *,
        in_capsules: int,
        in_dim: int,
        out_capsules: int,
        out_dim: int,
        window: int,
        routing: Routing,
        weights: str = "shared",
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.window = window
        self.route = Route(
            children=window * in_capsules,
            in_dim=in_dim,
            parents=out_capsules,
            out_dim=out_dim,
            routing=routing,
            weights=weights,
            bias=bias,
        )

    def forward(self, capsules: CapsuleSequence) -> CapsuleSequence:
        poses, activation, mask = capsules
        short = self.window - mask.shape[1]
        if short > 0:
            poses = functional.pad(poses, (0, 0, 0, 0, 0, short))
            activation = functional.pad(activation, (0, 0, 0, short))
            mask = functional.pad(mask, (0, short))
        real = mask.unfold(1, self.window, 1)
        whole = real.all(dim=-1)
        first = real[:, 0].any(dim=-1) & ~whole.any(dim=-1)
        valid = torch.cat([whole[:, :1] | first[:, None], whole[:, 1:]], dim=1)
        children = sequence_windows(poses, self.window)
        present = sequence_windows(activation.unsqueeze(-1), self.window).squeeze(-1)
        routed = self.route(children, present)
        shown = valid.unsqueeze(-1)
        return CapsuleSequence(routed.poses * shown.unsqueeze(-1), routed.activation * shown, valid)


class ConvolutionalCapsules2d(nn.Module):
    """Route the capsules of each square window of places to new capsules. Hinton et al. 2018, section 4."""

    def __init__(
        self,
        *,
        in_capsules: int,
        in_dim: int,
        out_capsules: int,
        out_dim: int,
        window: int,
        routing: Routing,
        stride: int = 1,
        weights: str = "shared",
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.window, self.stride = window, stride
        self.route = Route(
            children=window * window * in_capsules,
            in_dim=in_dim,
            parents=out_capsules,
            out_dim=out_dim,
            routing=routing,
            weights=weights,
            bias=bias,
        )

    def forward(self, capsules: CapsuleImage) -> CapsuleImage:
        children = image_windows(capsules.poses, self.window, self.stride)
        present = image_windows(capsules.activation.unsqueeze(-1), self.window, self.stride).squeeze(-1)
        return CapsuleImage(*self.route(children, present))


class ClassCapsules(nn.Module):
    """Route all capsules of a text or image to one capsule a class. Zhao et al. 2018, section 2.4."""

    def __init__(
        self,
        *,
        in_dim: int,
        classes: int,
        out_dim: int,
        routing: Routing,
        children: int = 1024,
        weights: str = "shared",
        bias: bool = False,
        places: int = 1,
    ) -> None:
        """`children`: how many to expect (for the initial scale), or how many there are (full weights)."""
        super().__init__()
        self.route = Route(
            children=children,
            in_dim=in_dim,
            parents=classes,
            out_dim=out_dim,
            routing=routing,
            weights=weights,
            bias=bias,
            places=places,
        )

    def forward(
        self,
        children: Float[Tensor, "B I d"],
        activation: Float[Tensor, "B I"] | None = None,
        record: list[Tensor] | None = None,
    ) -> Routed:
        return self.route(children, activation, record)
