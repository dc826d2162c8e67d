"""Regularised routing: a clustering whose entropy is paid for at a falling price α."""

from torch import Tensor

from capstext.routing.assignment import Assignment, assign
from capstext.routing.squash import LIMIT, unit
from capstext.routing.votes import Routed, Votes


def regularised(
    votes: Votes,
    *,
    training: bool = False,
    record: list[Tensor] | None = None,
    iterations: int = 3,
    tolerance: float | None = None,
    softmax: str = "plain",
    keep: float = 0.8,
    amendment: bool = False,
    alpha: float = 1.0,
    decay: float = 0.5,
) -> Routed:
    """Unit centres, couplings softmax_j(<û, s>/α), α times decay each time. Wang & Liu 2018, algorithm 2."""
    if not alpha > 0:
        raise ValueError(f"alpha must be above 0, not {alpha}")
    if not 0 < decay <= 1:
        raise ValueError(f"decay must lie in (0, 1], not {decay}")

    def procedure(assignment: Assignment) -> Routed:
        drawn = assignment.uniform()
        for step in range(iterations - 1):
            drawn = assignment.by(unit(drawn), scale=1 / (alpha * decay**step))
            if assignment.settled:
                break
        drawn = drawn.clamp(-LIMIT, LIMIT)
        norm = drawn.norm(dim=-1, keepdim=True)
        poses = drawn / (1 + norm.amax(dim=-2, keepdim=True))
        return Routed(poses, poses.norm(dim=-1))

    assignment = assign(
        votes,
        iterations=iterations,
        tolerance=tolerance,
        softmax=softmax,
        keep=keep,
        amendment=amendment,
        training=training,
        record=record,
    )
    return assignment.routed(procedure)
