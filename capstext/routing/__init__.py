"""The routing core: votes of children in, poses and activations of parents out. Imports nothing of ours."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from capstext.routing.dynamic import dynamic
from capstext.routing.em import em
from capstext.routing.fixed_point import fixed_point
from capstext.routing.k_means import k_means
from capstext.routing.kinds import VOTES
from capstext.routing.regularised import regularised
from capstext.routing.static import static
from capstext.routing.votes import FullVotes, Routed, SharedVotes, Votes

__all__ = [
    "ROUTINGS",
    "VOTES",
    "FullVotes",
    "Routed",
    "Routing",
    "SharedVotes",
    "Votes",
    "dynamic",
    "em",
    "fixed_point",
    "k_means",
    "regularised",
    "routing_by_name",
    "static",
]

ROUTINGS: dict[str, Callable[..., Routed]] = {
    "dynamic": dynamic,
    "fixed-point": fixed_point,
    "regularised": regularised,
    "k-means": k_means,
    "em": em,
    "static": static,
}

GIVEN = ("training", "record")
"""Arguments of a routing that the caller gives at each call; the other keywords are its options."""


@dataclass(frozen=True)
class Routing:
    """A routing of ROUTINGS with its options bound."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(
        self,
        votes: Votes,
        *,
        training: bool,
        learned: Mapping[str, Tensor] | None = None,
        record: list[Tensor] | None = None,
    ) -> Routed:
        """Route in float32 or better, also under autocast."""
        with torch.autocast(votes.children.device.type, enabled=False):
            return ROUTINGS[self.name](
                votes, training=training, record=record, **self.options, **(learned or {})
            )

    def deviation(self, *, children: int, parents: int, dim: int) -> float:
        """The standard deviation of initial weights with which a signal passes.

        Parents are sums of I children of length 1 shared among J: in random directions about 1 long.
        EM's parents are means, and its activations middling where votes have variance 1.
        """
        return 1.0 if self.name == "em" else parents / math.sqrt(children * dim)

    def learned(self, parents: int) -> nn.ParameterDict:
        """The parameters for each parent that this routing learns, for the layer to own and hand in."""
        names = [name for name, given in _keywords(self.name).items() if given.annotation == (Tensor | None)]
        return nn.ParameterDict({name: nn.Parameter(torch.zeros(parents)) for name in names})


def _keywords(name: str) -> dict[str, inspect.Parameter]:
    signature = inspect.signature(ROUTINGS[name])
    return {
        key: value
        for key, value in signature.parameters.items()
        if value.kind is inspect.Parameter.KEYWORD_ONLY and key not in GIVEN
    }


def routing_by_name(name: str, **options: Any) -> Routing:
    """The routing of that name with its options checked against its signature."""
    if name not in ROUTINGS:
        raise ValueError(f"unknown routing {name!r}; choose from: {', '.join(ROUTINGS)}")
    choices = [key for key, given in _keywords(name).items() if given.annotation != (Tensor | None)]
    for key in options:
        if key not in choices:
            raise ValueError(f"unknown option {key!r} of routing {name!r}; choose from: {', '.join(choices)}")
    # One child for one parent: a bad value shows now, not in the first batch.
    ROUTINGS[name](SharedVotes(children=torch.zeros(1, 1), weights=torch.zeros(1, 1, 1)), **options)
    return Routing(name, options)
