"""Every image network by name, small enough for tests, and images for them."""

from typing import Any

import torch
from torch import Tensor, nn

from capstext.models.images import IMAGE_MODELS
from capstext.routing import routing_by_name

CLASSES = 10
DIGITS, MNIST, NORB, OVERLAP = (1, 8, 8), (1, 28, 28), (2, 32, 32), (1, 36, 36)
SHAPES = [DIGITS, MNIST, NORB, OVERLAP]
SHAPE_IDS = ["8x8", "28x28", "32x32x2", "36x36"]

# Options with which a network reads digits of 8 x 8 pixels, and is small.
SMALL: dict[str, dict[str, Any]] = {
    "capsnet": {"filters": 16, "window": 3, "capsules": 4, "decoder": (32, 48)},
    "capsnet-light": {"decoder": (32, 48)},
    "matrix-capsules": {
        "filters": 16,
        "primary_capsules": 4,
        "capsules": (8, 8),
        "kernel": 3,
        "stride": 1,
        "strides": (1, 1),
    },
    "cnn-sabour": {"filters": (16, 16, 8), "hidden": (32, 24)},
    "cnn-multimnist": {"filters": (16, 16), "hidden": (32,)},
    "cnn-hinton": {"hidden": (64,)},
    "cnn-light": {},
}
CASES: list[tuple[str, dict[str, Any]]] = [
    *SMALL.items(),
    ("capsnet", {**SMALL["capsnet"], "weights": "positions"}),
    ("capsnet", {**SMALL["capsnet"], "weights": "shared"}),
    ("capsnet-light", {"weights": "positions", "window": 1}),
    ("capsnet-light", {"weights": "shared"}),
    ("matrix-capsules", {**SMALL["matrix-capsules"], "normalised": True}),
]
IDS = [
    " ".join([name, *(f"{key}={options[key]}" for key in ("weights", "normalised") if key in options)])
    for name, options in CASES
]
# Gaussians as wide as the votes at the start: narrower ones take one child each and are active at once.
EM = routing_by_name("em", iterations=2, floor=1.0, inverse_temperature=10.0)


def image_network(
    name: str, shape: tuple[int, int, int] = DIGITS, *, classes: int = CLASSES, **options: Any
) -> nn.Module:
    torch.manual_seed(0)
    channels, height, width = shape
    sizes = {"channels": channels, "height": height, "width": width, "classes": classes}
    if "cnn" not in name:
        options.setdefault("routing", EM if name.startswith("matrix") else routing_by_name("dynamic"))
    return IMAGE_MODELS[name](**sizes, **options)


def images(count: int, shape: tuple[int, int, int] = DIGITS) -> Tensor:
    """Random strokes: mostly 0, as digits are."""
    pixels = torch.rand(count, *shape, generator=torch.Generator().manual_seed(1))
    return pixels * (pixels > 0.7)


def digits(*places: int) -> tuple[Tensor, Tensor]:
    """Digits of scikit-learn with their one-hot labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = torch.from_numpy(found.images[list(places)]).float().div(16).unsqueeze(1)
    return pixels, torch.eye(CLASSES)[torch.from_numpy(found.target[list(places)])]


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
