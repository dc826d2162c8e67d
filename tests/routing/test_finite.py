"""Zero, tiny and huge capsules, one child, one parent, all masked: finite answers and gradients."""

from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import CASES, IDS, Problem, make_problem

from capstext.routing import VOTES, Routing

FACTORS = [0.0, 1e-30, 1e-15, 1e-6, 1.0, 1e6, 1e12]


def finite(problem: Problem, name: str, options: dict[str, Any]) -> None:
    for tensor in problem.inputs():
        tensor.requires_grad_()
    torch.manual_seed(0)
    routing = Routing(name, options)
    routed = routing(problem.votes(), training=True, learned=problem.learned)
    assert routed.poses.dtype == routed.activation.dtype == torch.float32
    assert routed.poses.isfinite().all()
    assert routed.activation.isfinite().all()
    (routed.poses.clamp(-10, 10).sum() + routed.activation.sum()).backward()
    for tensor in problem.inputs():
        assert tensor.grad is None or tensor.grad.isfinite().all()


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("kind", ["shared", "full", "shared-normalised", "full-matrix"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_any_size_of_capsules_is_finite(name: str, options: dict[str, Any], kind: str, factor: float) -> None:
    for shape in ({}, {"children": 1}, {"parents": 1}, {"children": 1, "parents": 1}):
        for softmax in ("plain", "leaky-sampled"):
            problem = make_problem(kind, name=name, **shape).to(torch.float32)
            problem.children *= factor
            finite(problem, name, {**options, "softmax": softmax})


@pytest.mark.parametrize("kind", VOTES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_all_masked_gives_absent_parents(name: str, options: dict[str, Any], kind: str) -> None:
    problem = make_problem(kind, name=name).to(torch.float32)
    assert problem.activation is not None
    problem.activation[0] = 0.0
    finite(problem, name, options)
    with torch.no_grad():
        routed = Routing(name, options)(problem.votes(), training=False, learned=problem.learned)
    assert (routed.poses[0] == 0).all()
    assert (routed.activation[0] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["shared", "full"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_autocast_routes_in_float32(
    name: str, options: dict[str, Any], kind: str, dtype: torch.dtype
) -> None:
    problem = make_problem(kind, name=name).to(torch.float32)
    rounded = Problem(kind, problem.children.to(dtype), problem.weights, problem.activation, problem.learned)
    plain = Problem(kind, rounded.children.float(), problem.weights, problem.activation, problem.learned)
    routing = Routing(name, options)
    expected = routing(plain.votes(), training=False, learned=plain.learned)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        routed = routing(rounded.votes(), training=False, learned=rounded.learned)
    torch.testing.assert_close(routed.poses, expected.poses)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        finite(problem, name, options)


@given(
    st.sampled_from(CASES),
    st.sampled_from(list(VOTES)),
    st.integers(1, 12),
    st.integers(1, 8),
    st.lists(st.sampled_from(FACTORS[:-1]), min_size=12, max_size=12),
    st.integers(0, 10**6),
)
def test_children_of_mixed_sizes_are_finite(
    case: tuple[str, dict[str, Any]], kind: str, children: int, parents: int, sizes: list[float], seed: int
) -> None:
    problem = make_problem(kind, children=children, parents=parents, name=case[0], seed=seed)
    problem = problem.to(torch.float32)
    problem.children *= torch.tensor(sizes[:children]).unsqueeze(-1)
    finite(problem, *case)


@pytest.mark.slow
@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16 autocast"])
def test_ten_thousand_random_cases_are_finite_with_their_gradients(autocast: bool) -> None:
    random = Random(0)
    for seed in range(10_000):
        (name, options), kind = random.choice(CASES), random.choice(list(VOTES))
        children, parents = random.randint(1, 12), random.randint(1, 8)
        problem = make_problem(kind, children=children, parents=parents, name=name, seed=seed)
        problem = problem.to(torch.float32)
        problem.children *= torch.tensor(random.choices(FACTORS[:-1], k=children)).unsqueeze(-1)
        if random.random() < 0.1 and problem.activation is not None:
            problem.activation.zero_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            finite(problem, name, options)
