"""How fast routing is: beside built votes, and beside one matmul of the same arithmetic; all in one run."""

import statistics
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from capstext.benchmarks import votes as built
from capstext.routing import FullVotes, SharedVotes, routing_by_name

WINDOWS = {"problems": 25 * 97, "children": 48, "parents": 16, "dim": 16}
"""The convolutional capsules of Zhao et al. 2018's release: batch 25, 97 windows of 3 x 16 capsules."""


@dataclass(frozen=True)
class Row:
    """One measurement: seconds are medians, bytes are peaks beside the inputs."""

    routing: str
    shape: str
    way: str  # eager or compiled
    passes: str  # forward, or forward+backward
    threads: int
    seconds: float
    beside: str  # what it is compared with
    beside_seconds: float
    speedup: float
    limit_seconds: float | None = None  # one batched matmul of the same arithmetic
    times_limit: float | None = None
    peak_bytes: int | None = None
    beside_peak_bytes: int | None = None


@dataclass(frozen=True)
class Point:
    """Class capsules over a document: how time and memory grow with the children."""

    routing: str
    children: int
    passes: str
    seconds: float
    peak_bytes: int
    """Beside the inputs and their gradients."""


Step = Callable[[], object]


def interleaved(steps: dict[str, Step], repeats: int) -> dict[str, float]:
    """Median seconds of each step, taken in turns so that noise falls on all alike."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(repeats):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


class _Memory(TorchDispatchMode):
    """Counts the bytes of tensors that are made while it is on, and how many were held at most."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.most = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in _tensors((args, kwargs)):
            self.known.add(tensor.untyped_storage()._cdata)
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            if storage._cdata not in self.known:
                self.known.add(storage._cdata)
                self.held += storage.nbytes()
                self.most = max(self.most, self.held)
                weakref.finalize(storage, self._free, storage._cdata, storage.nbytes())
        return result

    def _free(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.held -= size


def _tensors(nested: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(nested) if isinstance(leaf, Tensor)]


def peak_bytes(step: Step) -> int:
    """The most memory that tensors made by `step` hold at once; compiled code is not seen."""
    with _Memory() as memory:
        step()
    return memory.most


def _matmul_of(flops: int, *, problems: int, parents: int, dim: int) -> Step:
    """One batched matmul [n, J, K] x [n, K, d] with as many operations."""
    inner = max(1, round(flops / (2 * problems * parents * dim)))
    left, right = torch.randn(problems, parents, inner), torch.randn(problems, inner, dim)
    return partial(torch.bmm, left, right)


def _flops(step: Step) -> int:
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def _passes(route: Callable[[Tensor, Tensor], Tensor], children: Tensor, weights: Tensor) -> dict[str, Step]:
    def forward() -> None:
        with torch.no_grad():
            route(children, weights)

    def both() -> None:
        given = [children.detach().requires_grad_(), weights.detach().requires_grad_()]
        torch.autograd.grad(route(*given).sum(), given)

    return {"forward": forward, "forward+backward": both}


def _ours(name: str, **options: object) -> Callable[[Tensor, Tensor], Tensor]:
    routing = routing_by_name(name, **options)
    return lambda children, weights: (
        routing(SharedVotes(children=children, weights=weights), training=False).poses
    )


def shared_rows(*, repeats: int = 9, compiled: bool = False) -> Iterator[Row]:
    """Shared weights at the release's windows, beside built votes."""
    problems, count, parents, dim = WINDOWS.values()
    shape = f"{problems} x {count} -> {parents} capsules of {dim}"
    torch.manual_seed(0)
    children, weights = torch.randn(problems, count, dim) * 0.3, torch.randn(parents, dim, dim) * 0.3
    options: dict[str, dict[str, object]] = {"dynamic": {}, "k-means": {"distance": "euclidean"}, "em": {}}
    for name, given in options.items():
        ours = _passes(_ours(name, **given), children, weights)
        written = built.WRITTEN[name]
        theirs = _passes(lambda u, w, written=written: written(built.shared(u, w)), children, weights)  # type: ignore[misc]
        fast = torch.compile(_ours(name, **given), fullgraph=True, dynamic=False)
        quick = _passes(fast, children, weights) if compiled else {}
        for passes in ours:
            limit = _matmul_of(_flops(ours[passes]), problems=problems, parents=parents, dim=dim)
            steps = {"eager": ours[passes], "built": theirs[passes], "limit": limit}
            if passes in quick:
                steps["compiled"] = quick[passes]
            seconds = interleaved(steps, repeats)
            memory = {way: peak_bytes(steps[way]) for way in ("eager", "built")}
            for way in [way for way in ("eager", "compiled") if way in steps]:
                yield Row(
                    routing=name,
                    shape=shape,
                    way=way,
                    passes=passes,
                    threads=torch.get_num_threads(),
                    seconds=seconds[way],
                    beside="built votes",
                    beside_seconds=seconds["built"],
                    speedup=seconds["built"] / seconds[way],
                    limit_seconds=seconds["limit"],
                    times_limit=seconds[way] / seconds["limit"],
                    peak_bytes=memory.get(way),
                    beside_peak_bytes=memory["built"],
                )


def full_rows(*, repeats: int = 9, batch: int = 64) -> Iterator[Row]:
    """Full weights at CapsNet's shape, beside each public way of writing it."""
    torch.manual_seed(0)
    children, weights = torch.randn(batch, 1152, 8) * 0.3, torch.randn(1152, 10, 8, 16) * 0.1
    routing = routing_by_name("dynamic")
    ours = _passes(
        lambda u, w: routing(FullVotes(children=u, weights=w), training=False).poses, children, weights
    )
    others = {name: _passes(route, children, weights) for name, route in built.FULL.items()}
    for passes, step in ours.items():
        steps = {"ours": step, **{name: other[passes] for name, other in others.items()}}
        seconds = interleaved(steps, repeats)
        memory = {name: peak_bytes(each) for name, each in steps.items()}
        for name in others:
            yield Row(
                routing="dynamic, full weights",
                shape=f"{batch} x 1152 -> 10 capsules, 8 -> 16",
                way="eager",
                passes=passes,
                threads=torch.get_num_threads(),
                seconds=seconds["ours"],
                beside=name,
                beside_seconds=seconds[name],
                speedup=seconds[name] / seconds["ours"],
                peak_bytes=memory["ours"],
                beside_peak_bytes=memory[name],
            )


def routing_rows(*, repeats: int = 9, compiled: bool = False) -> list[Row]:
    """All rows of `capstext bench routing`."""
    return [*shared_rows(repeats=repeats, compiled=compiled), *full_rows(repeats=repeats)]


def document_curve(
    *, counts: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000), classes: int = 10, repeats: int = 3
) -> Iterator[Point]:
    """Class capsules over documents of more and more 16-d children: time is linear, memory does not grow."""
    for name, options in (("dynamic", {}), ("k-means", {"distance": "euclidean"}), ("em", {})):
        for count in counts:
            torch.manual_seed(0)
            children, weights = torch.randn(1, count, 16) * 0.3, torch.randn(classes, 16, 16) * 0.3
            for passes, step in _passes(_ours(name, **options), children, weights).items():
                seconds = interleaved({passes: step}, repeats)[passes]
                gradients = 0 if passes == "forward" else 4 * (children.numel() + weights.numel())
                yield Point(name, count, passes, seconds, peak_bytes(step) - gradients)
