"""Who takes what: softmax, sampling, amendment, padding and blocks, alike for every routing."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from capstext.routing.softmax import Softmax, softmax_by_name
from capstext.routing.votes import Routed, SharedVotes, Votes


def _recomputed(function: Callable[[], Any]) -> Any:
    """The result of `function`, whose inner results are computed again for the backward pass."""
    if not torch.is_grad_enabled():
        return function()
    return checkpoint(function, use_reentrant=False, preserve_rng_state=False)


class Assignment:
    """Shares the children of `votes` among the parents; `record` gets the couplings of every iteration."""

    def __init__(
        self,
        votes: Votes,
        softmax: Softmax,
        *,
        amendment: bool,
        tolerance: float | None = None,
        record: list[Tensor] | None = None,
    ) -> None:
        self.votes, self.softmax, self.amendment = votes, softmax, amendment
        self.tolerance, self.record = tolerance, record
        self.weight = votes.activation if amendment else None
        self.last: Tensor | float = 0.0
        self.settled = False

    @property
    def presence(self) -> Tensor | None:
        """What a child counts: its activation where amended, 1 for others, 0 for padding."""
        if self.amendment or self.votes.activation is None:
            return self.votes.activation
        return (self.votes.activation != 0).to(self.votes.children.dtype)

    def uniform(self) -> Float[Tensor, "*lead J D"]:
        """What each parent gets before anything is known of it."""
        share = self.softmax.uniform()
        if self.record is not None or self.tolerance is not None:
            self.note(self.equal_shares())
        if isinstance(share, float):
            return self.votes.total(self.weight) * share
        return self.votes.combine(share if self.weight is None else share * self.weight.unsqueeze(-1))

    def by(self, poses: Float[Tensor, "*lead J D"], *, scale: float = 1.0) -> Float[Tensor, "*lead J D"]:
        """What each parent gets when children share by scale <û, v>."""
        if scale != 1.0:
            poses = poses * scale
        if self.record is None and self.tolerance is None:
            return self.votes.attract(poses, self.softmax, self.weight)
        coupling = self.note(self.softmax(self.votes.agree(poses)))
        return self.votes.combine(coupling if self.weight is None else coupling * self.weight.unsqueeze(-1))

    def equal_shares(self) -> Float[Tensor, "*lead I J"]:
        """The couplings of zero logits."""
        ones = self.votes.children.new_ones(*self.votes.children.shape[:-1], self.votes.parents)
        return ones * self.softmax.uniform()

    def note(self, coupling: Float[Tensor, "*lead I J"]) -> Float[Tensor, "*lead I J"]:
        """Record couplings as they count (none for padding) and see whether they settled."""
        if self.record is not None:
            real = self.votes.activation
            self.record.append((coupling if real is None else coupling * (real != 0).unsqueeze(-1)).detach())
        if self.tolerance is not None:
            self.settled = bool((coupling - self.last).abs().amax() < self.tolerance)
            self.last = coupling.detach()
        return coupling

    def part(self, rows: slice, some: slice) -> "Assignment":
        """The assignment of some problems and children of [n, I]."""
        return Assignment(
            self.votes.part(rows, some), self.softmax.part(rows, some), amendment=self.amendment
        )

    def fold(self, step: Callable[["Assignment"], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """The sums of `step` over blocks of children whose votes stay in the cache."""
        whole = self.votes.children.dim() != 3 or self._watched or torch.compiler.is_compiling()
        count = self.votes.children.shape[-2]
        width = max(1, self.votes.at_once * count // (self.votes.size * self.votes.children.shape[0]))
        if whole or width >= count or not isinstance(self.votes, SharedVotes):
            return step(self)
        everything = slice(None)
        sums: tuple[Tensor, ...] = ()
        for left in range(0, count, width):
            some = slice(left, left + width)
            terms = _recomputed(lambda some=some: step(self.part(everything, some)))
            sums = tuple(a + b for a, b in zip(sums, terms, strict=True)) if sums else terms
        return sums

    def routed(self, procedure: Callable[["Assignment"], Routed], *, builds: bool = False) -> Routed:
        """The procedure on blocks of problems whose votes may be built at once, where any are `builds`."""
        lead = self.votes.children.shape[:-2]
        problems = lead.numel()
        height = max(1, self.votes.at_once // self.votes.size)
        builds = builds or not isinstance(self.votes, SharedVotes)
        if not builds or problems == 0 or self._watched or torch.compiler.is_compiling():
            return procedure(self)
        flat = self._flat()
        if height >= problems:
            poses, activation = procedure(flat)
        else:
            results = [
                _recomputed(lambda top=top: procedure(flat.part(slice(top, top + height), slice(None))))
                for top in range(0, problems, height)
            ]
            poses = torch.cat([result.poses for result in results])
            activation = torch.cat([result.activation for result in results])
        return Routed(
            poses.reshape(*lead, *poses.shape[1:]), activation.reshape(*lead, *activation.shape[1:])
        )

    @property
    def _watched(self) -> bool:
        return self.record is not None or self.tolerance is not None

    def _flat(self) -> "Assignment":
        """The same problems with one leading dimension."""
        return Assignment(self.votes.flat(), self.softmax.flat(), amendment=self.amendment)


def assign(
    votes: Votes,
    *,
    iterations: int,
    tolerance: float | None,
    softmax: str,
    keep: float,
    amendment: bool,
    training: bool,
    record: list[Tensor] | None,
) -> Assignment:
    """An assignment by the names and values of its options."""
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations}")
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"tolerance must be above 0, not {tolerance}")
    drawn = softmax_by_name(
        softmax, children=votes.children, parents=votes.parents, keep=keep, training=training
    )
    return Assignment(votes, drawn, amendment=amendment, tolerance=tolerance, record=record)
