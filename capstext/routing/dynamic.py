"""Dynamic routing: agreement adds up over the iterations."""

from torch import Tensor

from capstext.routing.assignment import Assignment, assign
from capstext.routing.squash import length, squash_by_name
from capstext.routing.votes import Routed, Votes


def dynamic(
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
    """Routing by agreement. Sabour et al. 2017, procedure 1."""
    shrink = squash_by_name(squash)

    def procedure(assignment: Assignment) -> Routed:
        poses = shrink(assignment.uniform())
        total = poses
        for _ in range(iterations - 1):
            poses = shrink(assignment.by(total))
            if assignment.settled:
                break
            total = total + poses  # logits add up, and agreement is linear in the poses
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
