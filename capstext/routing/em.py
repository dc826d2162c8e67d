"""EM routing: a mixture of Gaussians with diagonal variance, computed in log space."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from capstext.routing.assignment import NOBODY, Assignment, assign, count
from capstext.routing.votes import Routed, Votes, square_deviation

COSTS = ("r", "aR")
PRIORS = ("activation", "share")


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
    if (beta_u is None) != (beta_a is None):
        raise ValueError("beta_u and beta_a go together: give both or none")

    def procedure(
        assignment: Assignment, beta_u: Tensor | None = None, beta_a: Tensor | None = None
    ) -> Routed:
        mixture: Mixture | None = None
        for step in range(1, iterations + 1):
            expectation = Expectation()
            first, mass = assignment.fold(expectation.sums, *(mixture or ()))
            voters = count(mass)
            mean = first / voters
            (second,) = assignment.fold(expectation.squares, mean, *(mixture or ()))
            variance = second / voters + floor
            price = variance.log().sum(dim=-1) / 2
            if beta_u is not None:
                price = price + beta_u
            energy = -price * (mass if cost == "aR" else 1.0)
            if beta_a is not None:
                energy = energy + beta_a
            energy = energy * (inverse_temperature * (1 - 0.95**step))
            if prior == "activation":
                log_prior = logsigmoid(energy)
            else:
                total = mass.sum(dim=-1, keepdim=True)
                log_prior = mass.clamp(min=NOBODY).log() - total.clamp(min=NOBODY).log()
            mixture = Mixture(mean, variance, log_prior)
            if assignment.settled:
                break
        return Routed(mean, torch.where(mass > NOBODY, energy.sigmoid(), 0.0))

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
    learned = [beta for beta in (beta_u, beta_a) if beta is not None]
    return assignment.routed(procedure, *learned, builds=True)


class Expectation:
    """The E-step under a mixture, or equal shares where there is none yet; the last answer is kept."""

    def __init__(self) -> None:
        self.seen: tuple[Assignment, Tensor] | None = None

    def responsibilities(self, some: Assignment, *mixture: Tensor) -> Tensor:
        """a_i R_ij: [..., I, J]."""
        if self.seen is not None and self.seen[0] is some:
            return self.seen[1]
        if mixture:
            logits = log_densities(some.votes, Mixture(*mixture))
            # Shares too small for float32 are none, and have no gradient.
            shares = some.softmax(torch.where(logits > logits.amax(dim=-1, keepdim=True) - 80, logits, -1e30))
        else:
            shares = some.equal_shares()
        shares = some.note(shares)
        if some.weight is not None:
            shares = shares * some.weight.unsqueeze(-1)
        self.seen = None if some.passing else (some, shares)
        return shares

    def sums(self, some: Assignment, *mixture: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_i a_i R_ij û_ij and Σ_i a_i R_ij."""
        shares = self.responsibilities(some, *mixture)
        return some.votes.combine(shares), shares.sum(dim=-2)

    def squares(self, some: Assignment, mean: Tensor, *mixture: Tensor) -> tuple[Tensor]:
        """Σ_i a_i R_ij (û_ij - M_j)²."""
        shares = self.responsibilities(some, *mixture)
        return ((shares.mT.unsqueeze(-2) @ square_deviation(some.votes, mean)).squeeze(-2),)


def log_densities(votes: Votes, mixture: Mixture) -> Tensor:
    """ln of prior times density of every vote: [..., I, J]."""
    precision = mixture.variance.reciprocal()
    dim = mixture.mean.shape[-1]
    constant = mixture.log_prior - (mixture.variance.log().sum(dim=-1) + dim * math.log(2 * math.pi)) / 2
    distance = (square_deviation(votes, mixture.mean) @ precision.unsqueeze(-1)).squeeze(-1).mT
    return constant.unsqueeze(-2) - distance / 2
