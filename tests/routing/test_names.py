"""Names, options and shapes: what is wrong is said, with the choices."""

from typing import Any

import pytest
import torch
from problems import ITERATED

from capstext.routing import ROUTINGS, FullVotes, SharedVotes, routing_by_name
from capstext.routing.kinds import weights_shape
from capstext.routing.windows import image_windows, sequence_windows


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "dinamic",
            {},
            "unknown routing 'dinamic'; choose from: dynamic, fixed-point, regul",
        ),
        (
            "dynamic",
            {"iteration": 3},
            "unknown option 'iteration' of routing 'dynamic'; choose from: iter",
        ),
        ("em", {"squash": "sabour"}, "unknown option 'squash' of routing 'em'; choose from: "),
        (
            "static",
            {"iterations": 2},
            "unknown option 'iterations' of routing 'static'; choose from: softmax",
        ),
        ("em", {"beta_u": None}, "unknown option 'beta_u' of routing 'em'; choose from: "),
        ("dynamic", {"iterations": 0}, "iterations must be at least 1, not 0"),
        ("dynamic", {"tolerance": 0.0}, "tolerance must be above 0, not 0.0"),
        (
            "dynamic",
            {"softmax": "leeky"},
            "unknown softmax 'leeky'; choose from: plain, leaky, sampled, leaky",
        ),
        ("dynamic", {"keep": 0.0}, "keep must lie in (0, 1], not 0.0"),
        ("dynamic", {"keep": 1.5}, "keep must lie in (0, 1], not 1.5"),
        ("dynamic", {"squash": "soft"}, "unknown squash 'soft'; choose from: sabour, release, exponential"),
        ("regularised", {"alpha": 0.0}, "alpha must be above 0, not 0.0"),
        ("regularised", {"decay": 2.0}, "decay must lie in (0, 1], not 2.0"),
        ("k-means", {"temperature": -1.0}, "temperature must be above 0, not -1.0"),
        ("k-means", {"distance": "cosine"}, "unknown distance 'cosine'; choose from: inner, euclidean"),
        ("em", {"cost": "R"}, "unknown cost 'R'; choose from: r, aR"),
        ("em", {"prior": "pi"}, "unknown prior 'pi'; choose from: activation, share"),
        ("em", {"inverse_temperature": 0.0}, "inverse_temperature must be above 0, not 0.0"),
        ("em", {"floor": -1.0}, "floor must not be below 0, not -1.0"),
    ],
)
def test_a_bad_name_or_value_is_named_at_once(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        routing_by_name(name, **options)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("name", ITERATED)
def test_iterations_below_one_are_refused_by_every_routing(name: str) -> None:
    votes = SharedVotes(children=torch.zeros(2, 3), weights=torch.zeros(2, 3, 4))
    with pytest.raises(ValueError, match="iterations must be at least 1, not -1"):
        ROUTINGS[name](votes, iterations=-1)


def test_wrong_shapes_are_named() -> None:
    children = torch.zeros(5, 7, 4)
    with pytest.raises(
        ValueError, match=r"weights \[2, 3, 4\] do not fit children \[5, 7, 4\]; expected \[J, 4, D\]"
    ):
        SharedVotes(children=children, weights=torch.zeros(2, 3, 4))
    with pytest.raises(ValueError, match=r"expected \[7, J, 4, D\]"):
        FullVotes(children=children, weights=torch.zeros(6, 2, 4, 4))
    with pytest.raises(ValueError, match=r"\[7\] does not fit children \[5, 7, 4\]; expected \[5, 7\]"):
        SharedVotes(children=children, weights=torch.zeros(2, 4, 4), activation=torch.zeros(7))
    with pytest.raises(ValueError, match="unknown weights 'sharde'; choose from: shared, full"):
        weights_shape("sharde", children=1, parents=1, in_dim=1, out_dim=1)
    with pytest.raises(ValueError, match="need equal square dimensions such as 16, not 8 and 16"):
        weights_shape("shared-matrix", children=1, parents=1, in_dim=8, out_dim=16)
    with pytest.raises(ValueError, match="window must lie in 1 to 3 positions, not 4"):
        sequence_windows(torch.zeros(1, 3, 2, 2), 4)
    with pytest.raises(ValueError, match="window must lie in 1 to 3 places, not 0"):
        image_windows(torch.zeros(1, 3, 5, 2, 2), 0)


def test_only_em_learns_something_for_each_parent() -> None:
    assert {name: set(routing_by_name(name).learned(4)) for name in ROUTINGS} == {
        "dynamic": set(),
        "fixed-point": set(),
        "regularised": set(),
        "k-means": set(),
        "em": {"beta_u", "beta_a"},
        "static": set(),
    }
