"""CapsNet of Sabour et al. 2017 and a light one: pixels in, log-odds a class and a drawing out."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capstext.capsules import CapsuleImage, ClassCapsules, PrimaryCapsules2d
from capstext.models.decoder import Decoder
from capstext.models.image_features import ConvolutionStack, places
from capstext.routing import Routed, Routing

Sharing = Literal["full", "positions", "shared"]


class CapsuleNetwork(nn.Module):
    """Features, primary capsules, one capsule a class, and a decoder of these or none.

    weights: full, one matrix for each pair of capsules; positions, the same at all places; shared, one for
    each class and all capsules (Zhao et al. 2018, section 2.3).
    """

    def __init__(
        self,
        *,
        features: nn.Module,
        primary: PrimaryCapsules2d,
        grid: int,
        classes: int,
        class_dim: int,
        routing: Routing,
        weights: Sharing,
        decoder: Decoder | None,
    ) -> None:
        """`grid`: how many places have primary capsules."""
        super().__init__()
        self.features, self.primary = features, primary
        self.classes = ClassCapsules(
            in_dim=primary.dim,
            classes=classes,
            out_dim=class_dim,
            routing=routing,
            children=grid * primary.capsules,
            weights="shared" if weights == "shared" else "full",
            places=grid if weights == "positions" else 1,
        )
        self.decoder = decoder

    def voters(self, pixels: Float[Tensor, "B C H W"]) -> CapsuleImage:
        """The primary capsules, which are routed to the classes."""
        return self.primary(self.features(pixels))

    def capsules(self, pixels: Float[Tensor, "B C H W"]) -> Routed:
        """The class capsules."""
        return self.classes(*self.voters(pixels).flat())

    def forward(self, pixels: Float[Tensor, "B C H W"]) -> Float[Tensor, "B classes"]:
        return torch.logit(self.capsules(pixels).activation, eps=1e-6)


def capsnet(
    *,
    channels: int,
    height: int,
    width: int,
    classes: int,
    routing: Routing,
    filters: int = 256,
    window: int = 9,
    capsules: int = 32,
    dim: int = 8,
    class_dim: int = 16,
    weights: Sharing = "full",
    decoder: tuple[int, ...] | None = (512, 1024),
) -> CapsuleNetwork:
    """Sabour et al. 2017, figures 1 and 2: 8.2M parameters for MNIST, 6.8M of them before the decoder."""
    first = [places(size, window=window, stride=1) for size in (height, width)]
    down, across = (places(size, window=window, stride=2) for size in first)
    return CapsuleNetwork(
        features=nn.Sequential(nn.Conv2d(channels, filters, window), nn.ReLU()),
        primary=PrimaryCapsules2d(features=filters, capsules=capsules, dim=dim, window=window, stride=2),
        grid=down * across,
        classes=classes,
        class_dim=class_dim,
        routing=routing,
        weights=weights,
        decoder=_decoder(decoder, classes=classes, dim=class_dim, shape=(channels, height, width)),
    )


def capsnet_light(
    *,
    channels: int,
    height: int,
    width: int,
    classes: int,
    routing: Routing,
    filters: tuple[int, ...] = (32, 64, 128, 128),
    kernels: tuple[int, ...] = (5, 3, 3, 3),
    strides: tuple[int, ...] = (2, 1, 2, 1),
    window: int = 7,
    stride: int = 1,
    dim: int = 8,
    class_dim: int = 16,
    weights: Sharing = "full",
    decoder: tuple[int, ...] | None = None,
) -> CapsuleNetwork:
    """Small normalised convolutions, each channel of which is one number of a primary capsule.

    After Efficient-CapsNet (Mazzia et al. 2021, section 3), but with routing, and with strides early on,
    which makes it three times as fast. A window over what is left of a small image reads all of it.
    """
    stack = ConvolutionStack(channels=channels, filters=filters, kernels=kernels, strides=strides)
    if stack.filters % dim:
        raise ValueError(f"dim {dim} does not divide the last of the filters, {stack.filters}")
    left = stack.size(height), stack.size(width)
    window = min(window, *left)
    down, across = (places(size, window=window, stride=stride) for size in left)
    return CapsuleNetwork(
        features=stack,
        primary=PrimaryCapsules2d(
            features=stack.filters,
            capsules=stack.filters // dim,
            dim=dim,
            window=window,
            stride=stride,
            groups=stack.filters,
        ),
        grid=down * across,
        classes=classes,
        class_dim=class_dim,
        routing=routing,
        weights=weights,
        decoder=_decoder(decoder, classes=classes, dim=class_dim, shape=(channels, height, width)),
    )


def _decoder(
    hidden: tuple[int, ...] | None, *, classes: int, dim: int, shape: tuple[int, int, int]
) -> Decoder | None:
    if hidden is None:
        return None
    channels, height, width = shape
    return Decoder(classes=classes, dim=dim, channels=channels, height=height, width=width, hidden=hidden)
