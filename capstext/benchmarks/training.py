"""A training step of the text models beside the same model on a built vote tensor."""

import time
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from capstext.benchmarks.votes import dynamic, shared
from capstext.losses import loss_by_name
from capstext.models.capsule_text import CapsuleText
from capstext.routing import Routed, Routing, Votes, routing_by_name
from capstext.routing.squash import length

# Zhao et al. 2018, sections 2 and 3; the length is that of the released code's batches.
BATCH, LENGTH, WORD_DIM, CLASSES = 25, 50, 300, 2
PAPER: dict[str, Any] = {
    "filters": 32,
    "primary_capsules": 32,
    "capsules": 16,
    "dim": 16,
    "window": 3,
    "stride": 1,
}


@dataclass(frozen=True)
class Built(Routing):
    """Dynamic routing as public code writes it: every vote in memory, read once an iteration."""

    def __call__(self, votes: Votes, *, training: bool, **_: Any) -> Routed:
        children = votes.children.flatten(end_dim=-3)
        poses = dynamic(shared(children, votes.weights), self.options["iterations"])
        poses = poses.unflatten(0, votes.children.shape[:-2])
        return Routed(poses, length(poses))


@dataclass(frozen=True)
class StepRow:
    """Medians of one training step of both ways, and how many times faster ours is."""

    model: str
    seconds: float
    beside_seconds: float
    speedup: float
    threads: int


def training_steps(*, repeats: int = 7) -> list[StepRow]:
    """Forward, backward and Adam at the paper's shapes, in turns with the same model on built votes."""
    rows = []
    for name, sizes in (("capsule-a", (3,)), ("capsule-b", (3, 4, 5))):
        options = {"iterations": 3}
        ways = [routing_by_name("dynamic", **options), Built("dynamic", options)]
        steps = [_step(sizes, routing) for routing in ways]
        times: list[list[float]] = [[], []]
        for _ in range(repeats + 1):
            for way, step in enumerate(steps):
                started = time.perf_counter()
                step()
                times[way].append(time.perf_counter() - started)
        ours, built = (median(way[1:]) for way in times)
        rows.append(StepRow(name, ours, built, built / ours, torch.get_num_threads()))
    return rows


def _step(sizes: tuple[int, ...], routing: Routing) -> Any:
    torch.manual_seed(0)
    model: nn.Module = CapsuleText(
        in_dim=WORD_DIM, classes=CLASSES, routing=routing, ngram_sizes=sizes, **PAPER
    )
    optimiser = torch.optim.Adam(model.parameters())
    embedded, mask = torch.randn(BATCH, LENGTH, WORD_DIM), torch.ones(BATCH, LENGTH, dtype=torch.bool)
    targets = torch.eye(CLASSES)[torch.arange(BATCH) % CLASSES]
    return partial(_train_once, model, optimiser, embedded, mask, targets)


def _train_once(
    model: nn.Module, optimiser: torch.optim.Optimizer, embedded: Tensor, mask: Tensor, targets: Tensor
) -> None:
    optimiser.zero_grad()
    loss_by_name("margin", multi_label=False)(model(embedded, mask), targets, progress=0.0).backward()
    optimiser.step()
