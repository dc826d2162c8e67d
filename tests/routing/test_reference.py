"""Every routing gives what the papers' loops give: outputs, couplings and gradients."""

from typing import Any

import numpy as np
import pytest
import torch
from problems import CASES, IDS, Problem, make_problem, refer, route

from capstext.routing import VOTES

SHAPES = [
    {},
    {"lead": (), "children": 1, "parents": 1},
    {"lead": (1,), "children": 11, "parents": 2, "in_dim": 1, "out_dim": 3},
    {"lead": (3,), "children": 5, "parents": 7, "in_dim": 6, "out_dim": 1},
]
SHAPE_IDS = ["odd", "one-child-one-parent", "one-number-in", "one-number-out"]


def agree(problem: Problem, name: str, options: dict[str, Any], tolerance: float, **told: Any) -> None:
    record: list[torch.Tensor] = []
    exact = problem.to(torch.float64)
    poses, activation, couplings = refer(exact, name, **options, **told)
    routed = route(problem, name, **options)
    watched = route(problem, name, **options, record=record) if not told else routed
    scale = max(1.0, np.abs(poses).max())
    for answer in (routed, watched):
        np.testing.assert_allclose(answer.poses.numpy() / scale, poses / scale, rtol=0, atol=tolerance)
        np.testing.assert_allclose(answer.activation.numpy(), activation, rtol=0, atol=tolerance)
    if not told:
        assert len(record) == len(couplings)
        for seen, expected in zip(record, couplings, strict=True):
            np.testing.assert_allclose(seen.numpy(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
@pytest.mark.parametrize("softmax", ["plain", "leaky"])
@pytest.mark.parametrize("kind", VOTES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_outputs_and_couplings_equal_the_reference(
    name: str, options: dict[str, Any], kind: str, softmax: str, masked: bool
) -> None:
    for shape in SHAPES:
        problem = make_problem(kind, masked=masked, name=name, **shape)
        agree(problem, name, {**options, "softmax": softmax}, 1e-9)
        agree(problem.to(torch.float32), name, {**options, "softmax": softmax}, 1e-5)


@pytest.mark.parametrize("kind", ["shared", "full"])
@pytest.mark.parametrize(("name", "options"), [case for case in CASES if case[0] != "em"])
def test_amended_outputs_equal_the_reference(name: str, options: dict[str, Any], kind: str) -> None:
    for softmax in ("plain", "leaky"):
        agree(make_problem(kind), name, {**options, "amendment": True, "softmax": softmax}, 1e-9)


@pytest.mark.parametrize("softmax", ["sampled", "leaky-sampled"])
@pytest.mark.parametrize("kind", ["shared", "full"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_sampled_outputs_equal_the_reference_with_the_same_parents_kept(
    name: str, options: dict[str, Any], kind: str, softmax: str, remember_draws: list[torch.Tensor]
) -> None:
    problem = make_problem(kind, parents=5, name=name)
    options = {**options, "softmax": softmax, "keep": 0.5}
    routed = route(problem, name, **options, training=True)
    poses, activation, _ = refer(problem, name, **options, kept=remember_draws[0])
    np.testing.assert_allclose(routed.poses.numpy(), poses, rtol=0, atol=1e-9 * max(1, np.abs(poses).max()))
    np.testing.assert_allclose(routed.activation.numpy(), activation, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", VOTES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_gradients_equal_differences_of_the_reference(name: str, options: dict[str, Any], kind: str) -> None:
    problem = make_problem(kind, lead=(2,), children=5, parents=3, name=name)
    options = {**options, "softmax": "leaky"}
    for tensor in problem.inputs():
        tensor.requires_grad_()
    routed = route(problem, name, **options)
    pull = torch.randn(routed.poses.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ((routed.poses * pull).sum() + routed.activation.sum()).backward()

    def loss() -> float:
        with torch.no_grad():
            poses, activation, _ = refer(problem, name, **options)
        return float((poses * pull.numpy()).sum() + activation.sum())

    random = np.random.default_rng(2)
    for tensor in problem.inputs():
        step = torch.from_numpy(random.standard_normal(tensor.shape))
        if problem.activation is not None and tensor.shape == problem.activation.shape:
            step = step * (problem.activation != 0)
        tensor.requires_grad_(False)
        tensor += 1e-5 * step
        high = loss()
        tensor -= 2e-5 * step
        low = loss()
        tensor += 1e-5 * step
        tensor.requires_grad_()
        expected = (high - low) / 2e-5
        found = 0.0 if tensor.grad is None else float((tensor.grad * step).sum())
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", VOTES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_gradients_in_float32_equal_those_in_float64(name: str, options: dict[str, Any], kind: str) -> None:
    found = []
    for dtype in (torch.float64, torch.float32):
        problem = make_problem(kind, name=name).to(dtype)
        for tensor in problem.inputs():
            tensor.requires_grad_()
        routed = route(problem, name, **options)
        (routed.poses.square().sum() + routed.activation.sum()).backward()
        found.append([t.grad for t in problem.inputs() if t.grad is not None])
    for exact, rounded in zip(*found, strict=True):
        error = (exact - rounded.double()).abs().max() / exact.abs().max().clamp(min=1e-3)
        assert error < 1e-4
