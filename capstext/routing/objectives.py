"""What each routing descends, and how decided its couplings are: for reading and proving."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from capstext.routing.em import Mixture, log_densities
from capstext.routing.votes import Votes


def entropy(coupling: Float[Tensor, "*lead I J"]) -> Float[Tensor, "*lead I"]:
    """-Σ_j c_ij ln c_ij of each child, the leak's share left out."""
    return torch.special.entr(coupling).sum(dim=-1)


def leak(coupling: Float[Tensor, "*lead I J"]) -> Float[Tensor, "*lead I"]:
    """What of each child goes to no parent."""
    return 1 - coupling.sum(dim=-1)


def _presence(votes: Votes) -> Tensor:
    """1 for children, 0 for padding: [..., I, 1]."""
    if votes.activation is None:
        return votes.children.new_ones(*votes.children.shape[:-1], 1)
    return (votes.activation != 0).to(votes.children.dtype).unsqueeze(-1)


def agreement_loss(
    votes: Votes,
    coupling: Float[Tensor, "*lead I J"],
    last: Float[Tensor, "*lead I J"],
    centres: Float[Tensor, "*lead J D"],
    scale: Float[Tensor, "*lead J"],
) -> Float[Tensor, "*lead"]:
    """-Σ w_j c_ij <û, s_j> + Σ_i KL(c_i | c_i before): dynamic routing. He 2018, equation 15."""
    gain = coupling * votes.agree(centres * scale.unsqueeze(-1))
    change = torch.special.xlogy(coupling, coupling) - torch.special.xlogy(coupling, last)
    return ((change - gain) * _presence(votes)).sum(dim=(-2, -1))


def entropy_loss(
    votes: Votes, coupling: Float[Tensor, "*lead I J"], centres: Float[Tensor, "*lead J D"], alpha: float
) -> Float[Tensor, "*lead"]:
    """-Σ c_ij <û, s_j> + α Σ c_ij ln c_ij: regularised routing. Wang & Liu 2018; He 2018, equation 38."""
    terms = torch.special.xlogy(coupling, coupling) * alpha - coupling * votes.agree(centres)
    return (terms * _presence(votes)).sum(dim=(-2, -1))


def k_means_loss(
    votes: Votes, centres: Float[Tensor, "*lead J D"], *, distance: str = "inner", temperature: float = 1.0
) -> Float[Tensor, "*lead"]:
    """-T Σ_i ln Σ_j exp(-d(û, v_j)/T): the smooth least distance. Su 2018, T = 1/K."""
    far = -votes.agree(centres) if distance == "inner" else votes.square_distance(centres)
    soft = -temperature * torch.logsumexp(far / -temperature, dim=-1, keepdim=True)
    return (soft * _presence(votes)).sum(dim=(-2, -1))


def mixture_loss(votes: Votes, mixture: Mixture) -> Float[Tensor, "*lead"]:
    """-Σ_i a_i ln Σ_j π_j N(û_ij; μ_j, σ²_j): EM with shares as priors. Su 2018, equation 3."""
    weight = 1.0 if votes.activation is None else votes.activation
    return -(torch.logsumexp(log_densities(votes, mixture), dim=-1) * weight).sum(dim=-1)


def most_entropy(parents: int) -> float:
    """The entropy of equal shares."""
    return math.log(parents)
