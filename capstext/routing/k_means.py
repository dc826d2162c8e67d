"""Soft k-means routing, by inner product or Euclidean distance."""

from functools import partial

from torch import Tensor

from capstext.routing.assignment import Assignment, assign, count
from capstext.routing.squash import length, squash_by_name, unit
from capstext.routing.votes import Routed, Votes

DISTANCES = ("inner", "euclidean")


def k_means(
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
    distance: str = "inner",
    temperature: float = 1.0,
) -> Routed:
    """Couplings softmax_j(-d(û, v)/T); the parents are squashed sums, so many children make them long.

    Su 2018, "From K-Means to Capsules", with T = 1/K. Inner products have no least value, so their centres
    have unit length.
    """
    shrink = squash_by_name(squash)
    if distance not in DISTANCES:
        raise ValueError(f"unknown distance {distance!r}; choose from: {', '.join(DISTANCES)}")
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, not {temperature}")

    def by_inner_product(assignment: Assignment) -> Routed:
        drawn = assignment.uniform()
        for _ in range(iterations - 1):
            drawn = assignment.by(unit(drawn), scale=1 / temperature)
            if assignment.settled:
                break
        poses = shrink(drawn)
        return Routed(poses, length(poses))

    def by_distance(assignment: Assignment) -> Routed:
        drawn, mass = assignment.fold(partial(_sums, temperature))
        for _ in range(iterations - 1):
            centre = drawn / count(mass)
            drawn, mass = assignment.fold(partial(_sums, temperature), centre)
            if assignment.settled:
                break
        poses = shrink(drawn)
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
    euclidean = distance == "euclidean"
    return assignment.routed(by_distance if euclidean else by_inner_product, builds=euclidean)


def _sums(temperature: float, assignment: Assignment, centre: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Σ_i w_i c_ij û_ij and Σ_i w_i c_ij, with the couplings that the distances to the centres give."""
    if centre is None:
        coupling = assignment.note(assignment.equal_shares())
    else:
        logits = assignment.votes.square_distance(centre) / -temperature
        coupling = assignment.note(assignment.softmax(logits))
    if assignment.presence is not None:
        coupling = coupling * assignment.presence.unsqueeze(-1)
    return assignment.votes.combine(coupling), coupling.sum(dim=-2)
