"""Every routing gives what the papers' loops give: outputs, couplings and gradients."""

from typing import Any

import pytest
import torch
from problems import CASES, IDS, Problem, make_problem, refer, route
from torch import Tensor

from capstext.routing import VOTES

BROAD = [(name, {**options, "floor": 0.1}) for name, options in CASES if name == "em"]
CASES, IDS = CASES + BROAD, IDS + [f"em-{number}-of-broad-Gaussians" for number in range(len(BROAD))]
AMENDABLE = [case for case in CASES if case[0] != "em"]  # EM counts activations always
ODD = {"lead": (2, 1), "children": 5, "parents": 3}
SHAPES = [
    ODD,
    {"lead": (), "children": 1, "parents": 1},
    {"lead": (1,), "children": 7, "parents": 2, "in_dim": 1, "out_dim": 3},
    {"lead": (1,), "children": 3, "parents": 5, "in_dim": 6, "out_dim": 1},
]
SHORT = 0.25  # scales children so that votes are about 1 long and couplings are shared widely
EXACT, ROUNDED = 1e-9, 1e-5


def gradients(problem: Problem, poses: Tensor, activation: Tensor) -> dict[str, Tensor]:
    """Of a random sum of all outputs, by every input."""
    random = torch.Generator().manual_seed(1)
    pulls = [torch.randn(each.shape, generator=random).to(each.dtype) for each in (poses, activation)]
    loss = (poses * pulls[0]).sum() + (activation * pulls[1]).sum()
    inputs = problem.named_inputs()
    found = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(inputs, found, strict=True))


def assert_near(found: Tensor, expected: Tensor, bound: float, what: str) -> None:
    """To within a share of the largest number, or of 1 where all are smaller."""
    scale = max(1.0, float(expected.detach().abs().max()))
    error = float((found.detach().double() - expected.detach()).abs().max()) / scale
    assert error <= bound, f"{what} in {found.dtype} differ by {error:.1e}, more than {bound:.0e}"


def assert_agrees(problem: Problem, name: str, options: dict[str, Any], *, rounded: float = ROUNDED) -> None:
    """In float64 and float32, with the couplings recorded and with couplings that are never in memory."""
    exact = problem.tracked()
    poses, activation, couplings = refer(exact, name, **options)
    pulls = gradients(exact, poses, activation)
    for dtype, bound in ((torch.float64, EXACT), (torch.float32, rounded)):
        for record in (None, []):
            given = problem.to(dtype).tracked()
            routed = route(given, name, **options, record=record)
            assert_near(routed.poses, poses, min(bound, ROUNDED), "poses")
            assert_near(routed.activation, activation, min(bound, ROUNDED), "activations")
            for what, pull in gradients(given, *routed).items():
                assert_near(pull, pulls[what], bound, f"gradients of {what}")
            if record is not None:
                assert len(record) == len(couplings)
                for seen, expected in zip(record, couplings, strict=True):
                    assert_near(seen, expected, min(bound, 2 * ROUNDED), "couplings")


def bound_in_float32(name: str, options: dict[str, Any], *, long: bool = False) -> float:
    """1e-5, or what honest rounding leaves of it, by causes that the exact answer has as well.

    A Gaussian with one child left sits on its vote: their difference is only rounding, and EM divides it by
    variances down to its floor, 1e-4 by default. Votes so long that couplings are nearly 0 or 1 make many
    iterations, distances and a low temperature steep: the last bit of float32 in the inputs moves exact
    gradients by up to 1e-4.
    """
    if options.get("iterations") == 1:
        return ROUNDED
    narrow = name == "em" and "floor" not in options
    steep = (
        name == "em"
        or options.get("distance") == "euclidean"
        or options.get("iterations", 3) > 3
        or options.get("temperature", 1) < 1
    )
    return 1e-4 if narrow or (long and steep) else ROUNDED


@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
@pytest.mark.parametrize("softmax", ["plain", "leaky"])
@pytest.mark.parametrize("kind", VOTES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_outputs_couplings_and_gradients_equal_the_reference(
    name: str, options: dict[str, Any], kind: str, softmax: str, masked: bool
) -> None:
    options = {**options, "softmax": softmax}
    for shape in SHAPES:
        problem = make_problem(kind, masked=masked, name=name, scale=SHORT, **shape)
        assert_agrees(problem, name, options, rounded=bound_in_float32(name, options))
    problem = make_problem(kind, masked=masked, name=name, **ODD)
    assert_agrees(problem, name, options, rounded=bound_in_float32(name, options, long=True))


@pytest.mark.parametrize("softmax", ["plain", "leaky"])
@pytest.mark.parametrize("kind", VOTES)
@pytest.mark.parametrize(("name", "options"), AMENDABLE)
def test_amended_routings_equal_the_reference(
    name: str, options: dict[str, Any], kind: str, softmax: str
) -> None:
    options = {**options, "softmax": softmax, "amendment": True}
    for shape in SHAPES:
        assert_agrees(make_problem(kind, scale=SHORT, **shape), name, options)


@pytest.mark.parametrize("softmax", ["sampled", "leaky-sampled"])
@pytest.mark.parametrize("kind", VOTES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_sampled_routings_equal_the_reference_with_the_same_parents_kept(
    name: str, options: dict[str, Any], kind: str, softmax: str, remember_draws: list[Tensor]
) -> None:
    options = {**options, "softmax": softmax, "keep": 0.5}
    problem = make_problem(kind, lead=(2,), children=3, parents=5, name=name, scale=SHORT)
    for dtype, bound in ((torch.float64, EXACT), (torch.float32, bound_in_float32(name, options))):
        torch.manual_seed(4)
        given = problem.to(dtype).tracked()
        routed = route(given, name, **options, training=True)
        exact = problem.tracked()
        poses, activation, _ = refer(exact, name, **options, kept=remember_draws[-1])
        assert_near(routed.poses, poses, min(bound, ROUNDED), "poses")
        assert_near(routed.activation, activation, min(bound, ROUNDED), "activations")
        pulls = gradients(exact, poses, activation)
        for what, pull in gradients(given, *routed).items():
            assert_near(pull, pulls[what], bound, f"gradients of {what}")
