"""Static routing: every child gives each parent an equal share, and nobody asks who agrees."""

from torch import Tensor

from capstext.routing.assignment import Assignment, assign
from capstext.routing.squash import length, squash_by_name
from capstext.routing.votes import Routed, Votes


def static(
    votes: Votes,
    *,
    training: bool = False,
    record: list[Tensor] | None = None,
    softmax: str = "plain",
    keep: float = 0.8,
    amendment: bool = False,
    squash: str = "sabour",
) -> Routed:
    """The squashed sum of the votes. Kim et al. 2018, "Text classification using capsules", static routing.

    The code released with it has couplings of 1 where ours are shares, 1/J: a constant that weights take up.
    """
    shrink = squash_by_name(squash)

    def procedure(assignment: Assignment) -> Routed:
        poses = shrink(assignment.uniform())
        return Routed(poses, length(poses))

    assignment = assign(
        votes,
        iterations=1,
        tolerance=None,
        softmax=softmax,
        keep=keep,
        amendment=amendment,
        training=training,
        record=record,
    )
    return assignment.routed(procedure)
