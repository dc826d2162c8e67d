"""Losses over log-odds [B, C] and multi-hot targets [B, C]: sums over the classes, means over the batch."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Loss(Protocol):
    """What training calls; `progress` is the share of training that is done, 0 to 1."""

    def __call__(self, log_odds: Tensor, targets: Tensor, *, progress: float) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class Margin:
    """True classes over `positive` in length, false ones under `negative`. Sabour et al. 2017, equation 4."""

    positive: float = 0.9
    negative: float = 0.1
    weight: float = 0.5

    def __post_init__(self) -> None:
        _require_order("margin", negative=self.negative, positive=self.positive)
        if not self.weight > 0:
            raise ValueError(f"loss margin: weight must be over 0, not {self.weight}")

    def __call__(self, log_odds: Tensor, targets: Tensor, *, progress: float) -> Tensor:
        log_odds, targets = _in_full_precision(log_odds, targets)
        lengths = log_odds.sigmoid()
        too_short = (self.positive - lengths).clamp(min=0).square()
        too_long = (lengths - self.negative).clamp(min=0).square()
        return (targets * too_short + self.weight * (1 - targets) * too_long).sum(-1).mean()


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Every true class ahead of every false one by a margin that grows. Hinton et al. 2018, spread loss.

    With several true classes the sum runs over all pairs of a true and a false class; a row without
    labels has no pair.
    """

    start: float = 0.2
    end: float = 0.9

    def __post_init__(self) -> None:
        _require_order("spread", start=self.start, end=self.end)

    def __call__(self, log_odds: Tensor, targets: Tensor, *, progress: float) -> Tensor:
        log_odds, targets = _in_full_precision(log_odds, targets)
        lengths = log_odds.sigmoid()
        margin = self.start + (self.end - self.start) * min(max(progress, 0.0), 1.0)
        rows, true_classes = targets.nonzero(as_tuple=True)
        lead = lengths[rows, true_classes].unsqueeze(-1) - lengths[rows]  # [pairs' true classes, C]
        missing = (margin - lead).clamp(min=0).square() * (1 - targets[rows])
        return missing.sum() / max(len(targets), 1)


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """Of the softmax over the log-odds; with several labels, of each class's sigmoid, summed.

    `smoothing` moves that share of each target to the uniform distribution. Szegedy et al. 2016, section 7.
    """

    multi_label: bool
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise ValueError(
                f"loss cross-entropy: smoothing must be at least 0 and under 1, not {self.smoothing}"
            )

    def __call__(self, log_odds: Tensor, targets: Tensor, *, progress: float) -> Tensor:
        log_odds, targets = _in_full_precision(log_odds, targets)
        if not self.multi_label:
            return functional.cross_entropy(log_odds, targets, label_smoothing=self.smoothing)
        targets = targets * (1 - self.smoothing) + self.smoothing / 2
        return functional.binary_cross_entropy_with_logits(log_odds, targets, reduction="none").sum(-1).mean()


LOSSES: dict[str, Callable[..., Loss]] = {"margin": Margin, "spread": Spread, "cross-entropy": CrossEntropy}


def loss_by_name(name: str, *, multi_label: bool, **options: float) -> Loss:
    """The loss of that name, its options checked against its signature."""
    if name not in LOSSES:
        raise ValueError(f"unknown loss {name!r}; choose from: {', '.join(sorted(LOSSES))}")
    known = set(inspect.signature(LOSSES[name]).parameters)
    choices = sorted(known - {"multi_label"})
    for option, value in options.items():
        if option not in choices:
            raise ValueError(f"loss {name}: unknown option {option!r}; choose from: {', '.join(choices)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"loss {name}: {option} must be a number, not {value!r}")
    task = {"multi_label": multi_label} if "multi_label" in known else {}
    return LOSSES[name](**task, **options)


def _in_full_precision(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    log_odds = log_odds.to(torch.promote_types(log_odds.dtype, torch.float32))
    return log_odds, targets.to(log_odds.dtype)


def _require_order(loss: str, **bounds: float) -> None:
    (lower, low), (upper, high) = bounds.items()
    if not 0 <= low < high <= 1:
        raise ValueError(
            f"loss {loss}: needs 0 <= {lower} < {upper} <= 1, not {lower} {low} and {upper} {high}"
        )
