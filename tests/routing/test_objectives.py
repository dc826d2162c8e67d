"""What routings descend: it never rises where the theory says so, and can rise where it does not."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import make_problem

from capstext.routing import FullVotes, SharedVotes, dynamic, em, routing_by_name
from capstext.routing.assignment import Assignment
from capstext.routing.em import Expectation, Mixture
from capstext.routing.objectives import (
    agreement_loss,
    entropy,
    entropy_loss,
    k_means_loss,
    leak,
    mixture_loss,
    most_entropy,
)
from capstext.routing.softmax import Softmax
from capstext.routing.squash import unit

WILD = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["shared", "full", "shared-normalised", "full-matrix"]),
        "children": st.integers(1, 12),
        "parents": st.integers(1, 6),
        "seed": st.integers(0, 10**6),
        "size": st.sampled_from([1e-3, 1.0, 1.0, 30.0]),
        "twins": st.booleans(),
        "masked": st.booleans(),
    }
)


def wild(given_: dict[str, Any]) -> Any:
    """Random votes, or adversarial ones: children that are alike but for their sign."""
    problem = make_problem(
        given_["kind"],
        lead=(2,),
        children=given_["children"],
        parents=given_["parents"],
        seed=given_["seed"],
        masked=given_["masked"],
    )
    problem.children *= given_["size"]
    if given_["twins"]:
        signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(given_["children"])[
            : given_["children"]
        ]
        problem.children = problem.children[:, :1] * signs[:, None]
    return problem.votes()


def never_rises(losses: list[torch.Tensor]) -> None:
    for before, after in itertools.pairwise(losses):
        assert (after <= before + 1e-9 * (1 + before.abs())).all()


@given(WILD, st.sampled_from([0.1, 1.0, 3.0]))
def test_regularised_routing_descends_its_loss_at_constant_alpha(wild_: dict[str, Any], alpha: float) -> None:
    votes = wild(wild_)
    softmax, losses = Softmax(votes.parents), []
    coupling = votes.children.new_full((*votes.children.shape[:-1], votes.parents), 1 / votes.parents)
    for _ in range(8):
        centres = unit(votes.combine(coupling))
        losses.append(entropy_loss(votes, coupling, centres, alpha))
        coupling = softmax(votes.agree(centres) / alpha)
        losses.append(entropy_loss(votes, coupling, centres, alpha))
    never_rises(losses)


@given(WILD, st.sampled_from(["inner", "euclidean"]), st.sampled_from([0.2, 1.0]))
def test_k_means_descends_its_loss(wild_: dict[str, Any], distance: str, temperature: float) -> None:
    votes = wild(wild_)
    presence = 1.0 if votes.activation is None else (votes.activation != 0).double().unsqueeze(-1)
    softmax, losses = Softmax(votes.parents), []
    coupling = votes.children.new_full((*votes.children.shape[:-1], votes.parents), 1 / votes.parents)
    for _ in range(8):
        counted = coupling * presence
        drawn = votes.combine(counted)
        if distance == "inner":
            centres = unit(drawn)
            logits = votes.agree(centres)
        else:
            centres = drawn / counted.sum(dim=-2).unsqueeze(-1).clamp(min=1e-300)
            logits = -votes.square_distance(centres)
        if (counted.sum(dim=-2) < 1e-12).any() or (unit(drawn) == 0).all(dim=-1).any():
            return  # a parent without children has no centre to descend with
        losses.append(k_means_loss(votes, centres, distance=distance, temperature=temperature))
        coupling = softmax(logits / temperature)
    never_rises(losses)


@given(WILD)
def test_em_with_shares_as_priors_never_lowers_the_likelihood(wild_: dict[str, Any]) -> None:
    votes = wild(wild_)
    if votes.activation is not None and (votes.activation.sum(dim=-1) == 0).any():
        return
    losses: list[torch.Tensor] = []
    mixture: Mixture | None = None
    for _ in range(6):
        assignment = Assignment(votes, Softmax(votes.parents), amendment=True)
        first, mass = Expectation().sums(assignment, *(mixture or ()))
        if (mass < 1e-9).any():
            return
        mean = first / mass.unsqueeze(-1)
        (second,) = Expectation().squares(assignment, mean, *(mixture or ()))
        variance = second / mass.unsqueeze(-1)
        if (variance < 1e-9).any():
            return  # a Gaussian that shrank to a point has no likelihood
        mixture = Mixture(mean, variance, (mass / mass.sum(dim=-1, keepdim=True)).log())
        losses.append(mixture_loss(votes, mixture))
    never_rises(losses)


def test_the_steps_of_the_likelihood_test_are_those_of_the_routing() -> None:
    votes = make_problem(masked=True).votes()
    assignment = Assignment(votes, Softmax(votes.parents), amendment=True)
    first, mass = Expectation().sums(assignment)
    mean = first / mass.unsqueeze(-1)
    torch.testing.assert_close(em(votes, iterations=1).poses, mean)


def test_dynamic_routing_can_raise_its_loss() -> None:
    """Its w_j change with the centres, so the loss of He 2018, equation 15, is not descended."""
    numbers = torch.tensor([[0.0, -4.0], [0.0, 1.0], [-3.0, -1.0], [6.0, -5.0]], dtype=torch.float64)
    votes = FullVotes(children=torch.ones(4, 1, dtype=torch.float64), weights=numbers[:, :, None, None])
    record: list[torch.Tensor] = []
    dynamic(votes, iterations=5, record=record)
    losses = []
    for before, coupling in itertools.pairwise([record[0], *record]):
        drawn = votes.combine(coupling)
        square = drawn.square().sum(dim=-1)
        losses.append(agreement_loss(votes, coupling, before, unit(drawn), square / (1 + square)).item())
    assert losses[:4] == sorted(losses[:4], reverse=True)
    assert losses[4] > losses[3] + 0.1


def test_entropy_and_leak_tell_how_couplings_settle() -> None:
    votes = SharedVotes(
        children=torch.randn(4, 30, 8, generator=torch.Generator().manual_seed(0)),
        weights=torch.randn(5, 8, 8, generator=torch.Generator().manual_seed(1)),
    )
    record: list[torch.Tensor] = []
    routing_by_name("dynamic", iterations=6, softmax="leaky")(votes, training=False, record=record)
    assert leak(record[0]).mean().item() == pytest.approx(1 / 6, abs=1e-6)
    plain: list[torch.Tensor] = []
    routing_by_name("dynamic", iterations=6)(votes, training=False, record=plain)
    entropies = [entropy(coupling).mean().item() for coupling in plain]
    assert entropies[0] == pytest.approx(most_entropy(5), abs=1e-6)
    assert entropies == sorted(entropies, reverse=True)
    assert leak(plain[-1]).abs().max() < 1e-6
