"""Problems for every routing, kind of votes and option, and the reference's answer to them."""

from dataclasses import dataclass, field
from typing import Any

import reference
import torch
from torch import Tensor

from capstext.routing import ROUTINGS, VOTES
from capstext.routing.kinds import weights_shape
from capstext.routing.votes import Votes

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "dynamic": [{}, {"iterations": 1}, {"squash": "release"}, {"squash": "exponential", "iterations": 5}],
    "fixed-point": [{}, {"iterations": 1}, {"squash": "release"}, {"squash": "exponential", "iterations": 5}],
    "regularised": [{}, {"iterations": 1}, {"alpha": 0.5, "decay": 0.7, "iterations": 4}],
    "k-means": [
        {},
        {"temperature": 0.5, "squash": "release"},
        {"distance": "euclidean"},
        {"distance": "euclidean", "temperature": 0.5, "iterations": 4},
        {"distance": "euclidean", "iterations": 1},
    ],
    "em": [
        {},
        {"cost": "aR", "inverse_temperature": 0.3},
        {"prior": "share", "iterations": 4},
        {"iterations": 1},
    ],
    "static": [{}, {"squash": "release"}],
}
ITERATED = [name for name in ROUTINGS if name != "static"]
CASES = [(name, options) for name, several in OPTIONS.items() for options in several]
IDS = [f"{name}-{'-'.join(f'{k}={v}' for k, v in options.items()) or 'default'}" for name, options in CASES]


@dataclass
class Problem:
    """Children [..., I, d], weights of some kind of votes, activations or none."""

    kind: str
    children: Tensor
    weights: Tensor
    activation: Tensor | None
    learned: dict[str, Tensor] = field(default_factory=dict)

    def votes(self) -> Votes:
        return VOTES[self.kind](children=self.children, weights=self.weights, activation=self.activation)

    def to(self, dtype: torch.dtype) -> "Problem":
        return Problem(
            self.kind,
            self.children.to(dtype),
            self.weights.to(dtype),
            None if self.activation is None else self.activation.to(dtype),
            {name: value.to(dtype) for name, value in self.learned.items()},
        )

    def tracked(self) -> "Problem":
        """The same numbers as leaves that gradients are asked of."""
        return Problem(
            self.kind,
            self.children.detach().clone().requires_grad_(),
            self.weights.detach().clone().requires_grad_(),
            None if self.activation is None else self.activation.detach().clone().requires_grad_(),
            {name: value.detach().clone().requires_grad_() for name, value in self.learned.items()},
        )

    def named_inputs(self) -> dict[str, Tensor]:
        named = {"children": self.children, "weights": self.weights, **self.learned}
        return named if self.activation is None else {**named, "activation": self.activation}

    def inputs(self) -> list[Tensor]:
        given = [self.children, self.weights, *self.learned.values()]
        return given if self.activation is None else [*given, self.activation]


def make_problem(
    kind: str = "shared",
    *,
    lead: tuple[int, ...] = (2, 3),
    children: int = 7,
    parents: int = 3,
    in_dim: int = 4,
    out_dim: int = 5,
    masked: bool = True,
    scale: float = 1.0,
    seed: int = 0,
    name: str = "dynamic",
) -> Problem:
    """A random problem in float64; where masked, some children are padding with wild poses.

    Float32 holds its numbers exactly, so that one answer of the reference serves both precisions.
    """
    random = torch.Generator().manual_seed(seed)
    if kind.endswith("matrix"):
        in_dim = out_dim = 4
    shape = weights_shape(kind, children=children, parents=parents, in_dim=in_dim, out_dim=out_dim)
    poses = torch.randn(*lead, children, in_dim, generator=random, dtype=torch.float64) * scale
    weights = torch.randn(shape, generator=random, dtype=torch.float64)
    activation = None
    if masked:
        activation = torch.rand(*lead, children, generator=random, dtype=torch.float64) * 0.9 + 0.1
        activation[torch.rand(*lead, children, generator=random) < 0.25] = 0.0
        poses = torch.where((activation == 0).unsqueeze(-1), 10 * poses, poses)
    learned = {}
    if name == "em":
        for beta in ("beta_u", "beta_a"):
            learned[beta] = torch.randn(parents, generator=random, dtype=torch.float64) / 2
    return Problem(kind, poses, weights, activation, learned).to(torch.float32).to(torch.float64)


def route(problem: Problem, name: str, **options: Any) -> Any:
    return ROUTINGS[name](problem.votes(), **options, **problem.learned)


def refer(problem: Problem, name: str, **options: Any) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The reference's answer, problem by problem of the leading dimensions."""
    given = {key: value for key, value in options.items() if key not in ("squash", "softmax", "keep", "kept")}
    if "squash" in options:
        given["squash_kind"] = options["squash"]
    given["leaky"] = options.get("softmax", "plain").startswith("leaky")
    weights = problem.weights
    weights = reference.normalised(weights) if problem.kind.endswith("normalised") else weights
    lead = problem.children.shape[:-2]
    children = problem.children.reshape(-1, *problem.children.shape[-2:])
    count = children.shape[1]
    activation = torch.ones(len(children), count, dtype=children.dtype)
    if problem.activation is not None:
        activation = problem.activation.reshape(-1, count)
    kept = options.get("kept")
    answers = []
    for index, poses in enumerate(children):
        if problem.kind.endswith("matrix"):
            votes = reference.matrix_votes(poses, weights)
        elif problem.kind.startswith("shared"):
            votes = reference.shared_votes(poses, weights)
        else:
            votes = reference.full_votes(poses, weights)
        chosen = {} if kept is None else {"kept": kept.reshape(-1, *kept.shape[-2:])[index]}
        answers.append(
            reference.ROUTINGS[name](votes, activation[index], **given, **chosen, **problem.learned)
        )
    poses = torch.stack([torch.stack(answer[0]) for answer in answers])
    active = torch.stack([torch.stack(answer[1]) for answer in answers])
    seen = [
        torch.tensor([[[c.item() for c in row] for row in table] for table in each], dtype=children.dtype)
        for each in zip(*[answer[2] for answer in answers], strict=True)
    ]
    return (
        poses.reshape(*lead, *poses.shape[1:]),
        active.reshape(*lead, *active.shape[1:]),
        [each.reshape(*lead, *each.shape[1:]) for each in seen],
    )
