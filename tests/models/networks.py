"""Every network on embedded words, with its options, and texts for them."""

from typing import Any

import torch
from torch import Tensor, nn

from capstext.config import parse
from capstext.models import MODELS, build_network, reads_images

CLASSES, DIM = 3, 10
# Networks that count token ids get no vectors; they have tests of their own.
NETWORKS = [
    name
    for name, builder in MODELS.items()
    if not reads_images(name) and not getattr(getattr(builder, "func", builder), "reads_ids", False)
]
CAPSULES = [name for name in NETWORKS if name.startswith("capsule")]
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NETWORKS),
    ("capsule-b", {"wide": False}),
    ("capsule-a", {"stride": 2}),
    ("cnn", {"wide": False}),
    ("cnn", {"ngram_sizes": [1, 7], "norm_limit": None}),
    ("cnn-release", {"positions": 5, "ngram_size": 2}),
    ("lstm", {"pooling": "max"}),
    ("bilstm", {"pooling": "max", "layers": 2}),
    ("linear", {"pooling": "first"}),
    ("linear", {"pooling": "max"}),
]
IDS = [" ".join([name, *(f"{key}={value}" for key, value in options.items())]) for name, options in CASES]


def network(name: str, **options: object) -> nn.Module:
    torch.manual_seed(0)
    return build_network(parse({"model": {"name": name, **options}}), in_dim=DIM, classes=CLASSES)


def text(*lengths: int) -> tuple[Tensor, Tensor]:
    """Random words and their mask, padded to the longest text."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    embedded = torch.randn(len(lengths), max(lengths), DIM, generator=generator)
    return embedded * mask.unsqueeze(-1), mask
