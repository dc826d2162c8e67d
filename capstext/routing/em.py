"""EM routing: a mixture of Gaussians with diagonal variance, computed in log space."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from capstext.routing.assignment import Assignment, assign
from capstext.routing.votes import Routed, Votes, square_deviation

COSTS = ("r", "aR")
PRIORS = ("activation", "share")
TINY = 1e-30


class Mixture(NamedTuple):
    """Gaussians [..., J, D] and the logarithm of their priors [..., J]."""

    mean: Tensor
    variance: Tensor
    log_prior: Tensor


def em(
    votes: Votes,
    *,
    training: bool = False,
    record: list[Tensor] | None = None,
    iterations: int = 3,
    tolerance: float | None = None,
    softmax: str = "plain",
    keep: float = 0.8,
    cost: str = "r",
    prior: str = "activation",
    inverse_temperature: float = 1.0,
    floor: float = 1e-4,
    beta_u: Tensor | None = None,
    beta_a: Tensor | None = None,
) -> Routed:
    """Matrix capsules' routing in its complete form. Hinton et al. 2018, procedure 1; Su 2018.

    cost: what multiplies β_u + Σ ln σ, Σ_i r_ij = 1 or Σ_i a_i R_ij. prior: what weighs the Gaussians, the
    activations, or the children's shares (the EM of mixtures, whose likelihood never falls). λ rises with the
    iterations, inverse_temperature (1 - 0.95^t). floor is added to the variances.
    """
    if cost not in COSTS:
        raise ValueError(f"unknown cost {cost!r}; choose from: {', '.join(COSTS)}")
    if prior not in PRIORS:
        raise ValueError(f"unknown prior {prior!r}; choose from: {', '.join(PRIORS)}")
    if not inverse_temperature > 0:
        raise ValueError(f"inverse_temperature must be above 0, not {inverse_temperature}")
    if not floor >= 0:
        raise ValueError(f"floor must not be below 0, not {floor}")

    def procedure(assignment: Assignment) -> Routed:
        mixture: Mixture | None = None
        for step in range(1, iterations + 1):
            expectation = Expectation(mixture)
            first, mass = assignment.fold(expectation.sums)
            count = mass.clamp(min=TINY).unsqueeze(-1)
            mean = first / count
            (second,) = assignment.fold(lambda some, mean=mean, e=expectation: e.squares(some, mean))
            variance = second / count + floor
            price = variance.log().sum(dim=-1) / 2
            if beta_u is not None:
                price = price + beta_u
            energy = -price * (mass if cost == "aR" else 1.0)
            if beta_a is not None:
                energy = energy + beta_a
            energy = energy * (inverse_temperature * (1 - 0.95**step))
            total = mass.sum(dim=-1, keepdim=True).clamp(min=TINY)
            log_prior = logsigmoid(energy) if prior == "activation" else (mass.clamp(min=TINY) / total).log()
            mixture = Mixture(mean, variance, log_prior)
            if assignment.settled:
                break
        voted = mass > 0  # a parent for which no child votes is absent
        return Routed(mean, torch.where(voted, energy.sigmoid(), 0.0))

    assignment = assign(
        votes,
        iterations=iterations,
        tolerance=tolerance,
        softmax=softmax,
        keep=keep,
        amendment=True,
        training=training,
        record=record,
    )
    return assignment.routed(procedure, builds=True)


class Expectation:
    """The E-step under a mixture, or equal shares where there is none yet; the last answer is kept."""

    def __init__(self, mixture: Mixture | None) -> None:
        self.mixture = mixture
        self.seen: tuple[Assignment, Tensor] | None = None

    def responsibilities(self, some: Assignment) -> Tensor:
        """a_i R_ij: [..., I, J]."""
        if self.seen is not None and self.seen[0] is some:
            return self.seen[1]
        if self.mixture is None:
            shares = some.equal_shares()
        else:
            shares = some.softmax(log_densities(some.votes, self.mixture))
        shares = some.note(shares)
        if some.weight is not None:
            shares = shares * some.weight.unsqueeze(-1)
        self.seen = (some, shares)
        return shares

    def sums(self, some: Assignment) -> tuple[Tensor, Tensor]:
        """Σ_i a_i R_ij û_ij and Σ_i a_i R_ij."""
        shares = self.responsibilities(some)
        return some.votes.combine(shares), shares.sum(dim=-2)

    def squares(self, some: Assignment, mean: Tensor) -> tuple[Tensor]:
        """Σ_i a_i R_ij (û_ij - M_j)²."""
        shares = self.responsibilities(some)
        return ((shares.mT.unsqueeze(-2) @ square_deviation(some.votes, mean)).squeeze(-2),)


def log_densities(votes: Votes, mixture: Mixture) -> Tensor:
    """ln of prior times density of every vote: [..., I, J]."""
    precision = mixture.variance.reciprocal()
    dim = mixture.mean.shape[-1]
    constant = mixture.log_prior - (mixture.variance.log().sum(dim=-1) + dim * math.log(2 * math.pi)) / 2
    distance = (square_deviation(votes, mixture.mean) @ precision.unsqueeze(-1)).squeeze(-1).mT
    return constant.unsqueeze(-2) - distance / 2
