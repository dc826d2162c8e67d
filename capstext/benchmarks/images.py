"""A training step of CapsNet at its full size, beside the same network with routing as others write it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from capstext.benchmarks import votes as built
from capstext.benchmarks.routing import Step, interleaved, peak_bytes
from capstext.embeddings import Pixels
from capstext.losses import loss_by_name
from capstext.models.capsnet import CapsuleNetwork, capsnet
from capstext.models.image import ImageModel
from capstext.routing import Routed, Routing, Votes, routing_by_name
from capstext.routing.squash import length

SIZES: dict[str, Any] = {"channels": 1, "height": 28, "width": 28}
CLASSES, ITERATIONS = 10, 3


@dataclass(frozen=True)
class Written(Routing):
    """Dynamic routing with full weights in one of the public ways."""

    route: Callable[..., Tensor] = built.full_by_elements

    def __call__(self, votes: Votes, *, training: bool, **_: Any) -> Routed:
        poses = self.route(votes.children, votes.weights, ITERATIONS)
        return Routed(poses, length(poses))


@dataclass(frozen=True)
class ImageRow:
    """Medians of a training step of both, how many times faster ours is, and peaks of memory."""

    what: str
    batch: int
    threads: int
    seconds: float
    beside: str
    beside_seconds: float
    speedup: float
    images_per_second: float
    peak_bytes: int
    beside_peak_bytes: int


def image_rows(*, repeats: int = 5, batch: int = 64) -> list[ImageRow]:
    """The capsule layers alone, and whole steps with convolutions, decoder and Adam; in turns."""
    ours = {"ours": routing_by_name("dynamic", iterations=ITERATIONS)}
    others = {name: Written("dynamic", {}, route=route) for name, route in built.FULL.items()}
    rows: list[ImageRow] = []
    for what, make in (("capsule layer", _layer), ("training step", _step)):
        steps = {name: make(routing, batch) for name, routing in (ours | others).items()}
        rows += _rows(what, steps, repeats=repeats, batch=batch)
    return rows


def _rows(what: str, steps: dict[str, Step], *, repeats: int, batch: int) -> Iterator[ImageRow]:
    seconds = interleaved(steps, repeats)
    memory = {name: peak_bytes(step) for name, step in steps.items()}
    for name in [name for name in steps if name != "ours"]:
        yield ImageRow(
            what=f"CapsNet, {what}",
            batch=batch,
            threads=torch.get_num_threads(),
            seconds=seconds["ours"],
            beside=name,
            beside_seconds=seconds[name],
            speedup=seconds[name] / seconds["ours"],
            images_per_second=batch / seconds["ours"],
            peak_bytes=memory["ours"],
            beside_peak_bytes=memory[name],
        )


def _network(routing: Routing) -> CapsuleNetwork:
    torch.manual_seed(0)
    return capsnet(**SIZES, classes=CLASSES, routing=routing)


def _layer(routing: Routing, batch: int) -> Step:
    """Forward and backward of the digit capsules."""
    layer = _network(routing).classes
    children = torch.randn(batch, 1152, 8, generator=torch.Generator().manual_seed(1)) * 0.3

    def step() -> None:
        given = children.clone().requires_grad_()
        torch.autograd.grad(layer(given, None).poses.square().sum(), [given, *layer.parameters()])

    return step


def _step(routing: Routing, batch: int) -> Step:
    """Margin and reconstruction loss, backward and Adam."""
    model = ImageModel(
        embedding=Pixels(**SIZES, shift=2), network=_network(routing), classes=CLASSES, reconstruction=0.0005
    )
    optimiser = torch.optim.Adam(model.parameters())
    loss = loss_by_name("margin", multi_label=False)
    pixels = torch.randint(256, (batch, 1, 28, 28), dtype=torch.uint8)
    targets = torch.eye(CLASSES)[torch.arange(batch) % CLASSES]

    def step() -> None:
        optimiser.zero_grad()
        log_odds, error = model(pixels, shown=targets.bool()[:, None])
        (loss(log_odds, targets, progress=0.0) + error).backward()
        optimiser.step()

    return step
