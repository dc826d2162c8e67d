"""Laws that hold for every routing, kind of votes and option."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import CASES, IDS, ITERATED, Problem, make_problem, route

from capstext.routing import ROUTINGS, VOTES, FullVotes, SharedVotes, attract

EVERY = st.fixed_dictionaries(
    {
        "case": st.sampled_from(CASES),
        "kind": st.sampled_from(list(VOTES)),
        "softmax": st.sampled_from(["plain", "leaky"]),
        "children": st.integers(1, 9),
        "parents": st.integers(1, 6),
        "masked": st.booleans(),
        "seed": st.integers(0, 10**6),
    }
)


def lay_out(law: dict[str, Any], **more: Any) -> tuple[Problem, str, dict[str, Any]]:
    name, options = law["case"]
    problem = make_problem(
        law["kind"],
        children=law["children"],
        parents=law["parents"],
        masked=law["masked"],
        seed=law["seed"],
        name=name,
        **more,
    )
    return problem, name, {**options, "softmax": law["softmax"]}


def close(one: Any, other: Any, tolerance: float = 1e-8) -> None:
    scale = max(1.0, float(one.poses.abs().max()))
    torch.testing.assert_close(one.poses / scale, other.poses / scale, rtol=0, atol=tolerance)
    torch.testing.assert_close(one.activation, other.activation, rtol=0, atol=tolerance)


@given(EVERY)
def test_leading_dimensions_are_independent(law: dict[str, Any]) -> None:
    problem, name, options = lay_out(law)
    whole = route(problem, name, **options)
    for index in ((0, 0), (1, 2)):
        activation = None if problem.activation is None else problem.activation[index]
        alone = Problem(problem.kind, problem.children[index], problem.weights, activation, problem.learned)
        routed = route(alone, name, **options)
        close(routed, type(routed)(whole.poses[index], whole.activation[index]))


@given(EVERY)
def test_the_order_of_children_does_not_matter(law: dict[str, Any]) -> None:
    problem, name, options = lay_out(law)
    order = torch.randperm(law["children"], generator=torch.Generator().manual_seed(law["seed"]))
    activation = None if problem.activation is None else problem.activation[..., order]
    weights = problem.weights if problem.kind.startswith("shared") else problem.weights[order]
    mixed = Problem(problem.kind, problem.children[..., order, :], weights, activation, problem.learned)
    close(route(problem, name, **options), route(mixed, name, **options))


@given(EVERY)
def test_padding_casts_no_vote(law: dict[str, Any]) -> None:
    problem, name, options = lay_out({**law, "masked": False})
    extra = 3
    shape = (*problem.children.shape[:-2], extra, problem.children.shape[-1])
    junk = 100 * torch.randn(shape, generator=torch.Generator().manual_seed(law["seed"]), dtype=torch.float64)
    activation = torch.ones(problem.children.shape[:-1], dtype=torch.float64)
    weights = problem.weights
    if problem.kind.startswith("full"):
        weights = torch.cat([weights, torch.randn_like(weights[:1]).expand(extra, *weights.shape[1:])])
    padded = Problem(
        problem.kind,
        torch.cat([problem.children, junk], dim=-2),
        weights,
        torch.cat([activation, torch.zeros(shape[:-1], dtype=torch.float64)], dim=-1),
        problem.learned,
    )
    close(route(problem, name, **options), route(padded, name, **options))


@given(EVERY)
def test_shared_and_built_votes_agree(law: dict[str, Any]) -> None:
    problem, name, options = lay_out({**law, "kind": "shared"})
    repeated = problem.weights.expand(law["children"], *problem.weights.shape)
    full = Problem("full", problem.children, repeated, problem.activation, problem.learned)
    close(route(problem, name, **options), route(full, name, **options))


@given(EVERY)
def test_couplings_of_a_child_add_up_to_one_with_the_leak(law: dict[str, Any]) -> None:
    problem, name, options = lay_out(law)
    record: list[torch.Tensor] = []
    route(problem, name, **options, record=record)
    for step, coupling in enumerate(record):
        assert coupling.shape == (*problem.children.shape[:-1], law["parents"])
        assert (coupling >= 0).all()
        total = coupling.sum(dim=-1)
        if problem.activation is not None:
            assert (total[problem.activation == 0] == 0).all()
            total = total[problem.activation != 0]
        if law["softmax"] == "plain":
            torch.testing.assert_close(total, torch.ones_like(total))
        elif step == 0:
            torch.testing.assert_close(total, torch.full_like(total, law["parents"] / (law["parents"] + 1)))
        else:
            assert (total <= 1 + 1e-12).all()


@given(EVERY)
def test_recording_changes_nothing(law: dict[str, Any]) -> None:
    problem, name, options = lay_out(law)
    close(route(problem, name, **options), route(problem, name, **options, record=[]), 1e-10)


@pytest.mark.parametrize("kind", ["shared", "full"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_blocks_agree_with_one_pass(
    name: str, options: dict[str, Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of problems, and of children where one problem is too large, outputs and gradients."""
    amended = {} if name == "em" else {"amendment": True}

    def answer() -> tuple[Any, list[torch.Tensor]]:
        problem = make_problem(kind, children=9, parents=4, name=name)
        for tensor in problem.inputs():
            tensor.requires_grad_()
        torch.manual_seed(3)
        routed = route(problem, name, softmax="leaky-sampled", keep=0.6, training=True, **options, **amended)
        (routed.poses.square().sum() + routed.activation.sum()).backward()
        gradients = [torch.zeros_like(t) if t.grad is None else t.grad for t in problem.inputs()]
        return routed, gradients

    one_pass = answer()
    for couplings, votes in ((4 * 4, 9 * 4 * 5 * 2), (1, 7 * 4 * 5), (10**6, 3 * 4 * 5)):
        monkeypatch.setattr(attract, "COUPLINGS", couplings)
        monkeypatch.setattr(SharedVotes, "at_once", votes)
        monkeypatch.setattr(FullVotes, "at_once", votes)
        routed, gradients = answer()
        close(one_pass[0], routed, 1e-10)
        for expected, found in zip(one_pass[1], gradients, strict=True):
            torch.testing.assert_close(expected, found, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", VOTES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_gradcheck(name: str, options: dict[str, Any], kind: str) -> None:
    problem = make_problem(kind, lead=(2,), children=3, parents=2, in_dim=2, out_dim=3, name=name)
    names = list(problem.learned)

    def routed(children: torch.Tensor, weights: torch.Tensor, *learned: torch.Tensor) -> Any:
        again = Problem(kind, children, weights, problem.activation, dict(zip(names, learned, strict=True)))
        return tuple(route(again, name, **options, softmax="leaky"))

    inputs = [problem.children, problem.weights, *problem.learned.values()]
    assert torch.autograd.gradcheck(routed, [t.requires_grad_() for t in inputs], atol=1e-6)


@pytest.mark.parametrize("name", ITERATED)
def test_it_stops_when_the_couplings_settle(name: str) -> None:
    problem = make_problem(name=name)
    patient: list[torch.Tensor] = []
    routed = route(problem, name, iterations=300, tolerance=1e-3, record=patient)
    assert 2 < len(patient) < 300
    assert (patient[-1] - patient[-2]).abs().max() < 1e-3
    close(routed, route(problem, name, iterations=len(patient)), 1e-10)


def test_sampling_keeps_the_asked_share_of_parents_and_never_none(remember_draws: list[torch.Tensor]) -> None:
    for keep, parents in ((0.8, 3), (0.5, 10), (0.01, 4)):
        problem = make_problem(lead=(100,), children=50, parents=parents, masked=False)
        route(problem, "dynamic", softmax="sampled", keep=keep, training=True)
        kept = remember_draws[-1].double()
        assert kept.sum(dim=-1).min() >= 1
        assert kept.mean().item() == pytest.approx(max(keep, 1 / parents), abs=0.02)
        assert kept.mean(dim=(0, 1)).std() < 0.05


def test_nothing_is_sampled_at_evaluation(remember_draws: list[torch.Tensor]) -> None:
    problem = make_problem()
    plain = route(problem, "dynamic", softmax="plain")
    sampled = route(problem, "dynamic", softmax="sampled", keep=0.3, training=False)
    assert not remember_draws
    torch.testing.assert_close(plain.poses, sampled.poses, rtol=0, atol=0)


@given(EVERY)
def test_static_routing_is_dynamic_routing_before_anything_agrees(law: dict[str, Any]) -> None:
    problem, _, options = lay_out({**law, "case": ("static", {})})
    close(route(problem, "static", **options), route(problem, "dynamic", iterations=1, **options), 1e-12)


@pytest.mark.slow
@given(EVERY)
@settings(max_examples=10_000, deadline=None)
def test_ten_thousand_cases_are_finite_and_independent_of_padding(law: dict[str, Any]) -> None:
    test_padding_casts_no_vote.hypothesis.inner_test(law)
    problem, name, options = lay_out(law)
    single = problem.to(torch.float32)
    for factor in (0.0, 1e-30, 1e-8, 1.0, 1e6, 1e12):
        scaled = Problem(
            single.kind, single.children * factor, single.weights, single.activation, single.learned
        )
        routed = route(scaled, name, **options)
        assert routed.poses.isfinite().all()
        assert routed.activation.isfinite().all()


def test_neither_couplings_nor_votes_are_kept_for_the_backward_pass() -> None:
    children = torch.randn(4, 64, 8, requires_grad=True)
    weights = torch.randn(16, 8, 8, requires_grad=True)
    sizes: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        ROUTINGS["dynamic"](SharedVotes(children=children, weights=weights))
    assert max(sizes) <= children.numel()
