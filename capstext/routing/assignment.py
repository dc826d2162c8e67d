"""Who takes what: softmax, sampling, amendment, padding and blocks, alike for every routing."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from capstext.routing.blocks import At, InBlocks
from capstext.routing.softmax import Softmax, softmax_by_name
from capstext.routing.votes import Routed, SharedVotes, Votes

NOBODY = 1e-20
"""A parent that gets no more than so much of all children has none."""
CACHED = 1 << 20
"""Numbers of votes that stay in the cache."""


def count(mass: Float[Tensor, "*lead J"]) -> Float[Tensor, "*lead J 1"]:
    """What to divide sums over children by: 1 for a parent that has none."""
    return torch.where(mass > NOBODY, mass, 1.0).unsqueeze(-1)


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
        self.passing = False  # a block of children that is not asked a second time

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

    def fold(self, step: Callable[..., tuple[Tensor, ...]], *state: Tensor) -> tuple[Tensor, ...]:
        """The sums of step(assignment, *state) over blocks of children whose votes stay in the cache."""
        votes = self.votes
        count = votes.children.shape[-2]
        width = max(1, votes.at_once * count // (votes.size * votes.children.shape[:-2].numel()))
        if width >= count or self._watched or not isinstance(votes, SharedVotes) or votes.children.dim() != 3:
            return step(self, *state)
        parts = [(slice(None), slice(left, left + width)) for left in range(0, count, width)]
        run = partial(self._run, step, True)
        *sums, votes.children = InBlocks.apply(
            run,
            parts,
            False,
            votes.children,
            votes.activation,
            votes.weights,
            *state,
        )
        return tuple(sums)

    def routed(self, procedure: Callable[..., Routed], *learned: Tensor, builds: bool = False) -> Routed:
        """procedure(assignment, *learned), on blocks of problems where votes are built."""
        votes = self.votes
        lead = votes.children.shape[:-2]
        # Where each step streams the built votes again they should stay in the cache; but every block adds to
        # the gradient of all weights.
        at_once = min(votes.at_once, max(CACHED, 16 * votes.weights.numel())) if builds else votes.at_once
        height = max(1, at_once // votes.size)
        builds = builds or not isinstance(votes, SharedVotes)
        if not builds or height >= lead.numel() or self._watched:
            return procedure(self, *learned)
        children = votes.children.flatten(0, -3)
        activation = None if votes.activation is None else votes.activation.flatten(0, -2)
        flat = Assignment(
            votes.of(children, activation, votes.weights), self.softmax.flat(), amendment=self.amendment
        )
        parts = [(slice(top, top + height), slice(None)) for top in range(0, len(children), height)]
        poses, active, _ = InBlocks.apply(
            partial(flat._run, procedure, False), parts, True, children, activation, votes.weights, *learned
        )
        return Routed(poses.unflatten(0, lead), active.unflatten(0, lead))

    def _run(
        self,
        step: Callable[..., tuple[Tensor, ...]],
        passing: bool,
        at: At,
        children: Tensor,
        activation: Tensor | None,
        weights: Tensor,
        *state: Tensor,
    ) -> tuple[Tensor, ...]:
        votes = self.votes.of(children, activation, weights)
        part = Assignment(votes, self.softmax.part(*at), amendment=self.amendment)
        part.passing = passing
        return step(part, *state)

    @property
    def _watched(self) -> bool:
        """Whether couplings must be seen whole, or the compiler makes blocks of its own."""
        return self.record is not None or self.tolerance is not None or torch.compiler.is_compiling()


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
