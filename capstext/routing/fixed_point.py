"""Fixed-point routing: agreement with the last poses alone."""

from torch import Tensor

from capstext.routing.assignment import Assignment, assign
from capstext.routing.squash import length, squash_by_name
from capstext.routing.votes import Routed, Votes


def fixed_point(
    votes: Votes,
    *,
    training: bool = False,
    record: list[Tensor] | None = None,
    iterations: int = 3,
    tolerance: float | None = None,
    softmax: str = "plain",
    keep: float = 0.8,
    amendment: bool = False,
    squash: str = "sabour",
) -> Routed:
    """Iterate v = squash(Σ_i softmax_j(<û, v>) û). Su 2018, "A Visual Feast of Capsules"."""
    shrink = squash_by_name(squash)

    def procedure(assignment: Assignment) -> Routed:
        poses = shrink(assignment.uniform())
        for _ in range(iterations - 1):
            poses = shrink(assignment.by(poses))
            if assignment.settled:
                break
        return Routed(poses, length(poses))

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
