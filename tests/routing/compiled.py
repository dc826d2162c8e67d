"""Compiled routing is one graph and equals eager routing; a script, as checked types do not compile."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from problems import OPTIONS, Problem, make_problem

from capstext.routing import Routing

CASES = [(name, options) for name, several in OPTIONS.items() for options in several[:1]]
CASES += [("dynamic", {"softmax": "leaky", "amendment": True}), ("k-means", {"distance": "euclidean"})]
CASES = [case for case in CASES if case[0] != "em"] + [("em", {"softmax": "leaky"})]


def route_of(problem: Problem, routing: Routing) -> Callable[..., tuple[torch.Tensor, ...]]:
    def route(
        children: torch.Tensor, weights: torch.Tensor, activation: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        votes = Problem(problem.kind, children, weights, activation).votes()
        return tuple(routing(votes, training=False, learned=problem.learned))

    return route


def compare(name: str, options: dict[str, Any], kind: str, backend: str) -> None:
    torch._dynamo.reset()
    routing = Routing(name, options)
    # in float64, because EM's gradients in float32 differ by rounding alone where a Gaussian has one child
    problem = make_problem(kind, name=name)
    route = route_of(problem, routing)
    answers = []
    for function in (route, torch.compile(route, fullgraph=True, backend=backend)):
        given = [t.clone().requires_grad_() for t in (problem.children, problem.weights, problem.activation)]
        poses, activation = function(*given)
        (poses.square().sum() + activation.sum()).backward()
        answers.append([poses, activation, *(t.grad for t in given if t.grad is not None)])
    for expected, found in zip(*answers, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
    problem = problem.to(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        poses, _ = torch.compile(route_of(problem, routing), fullgraph=True, backend=backend)(
            problem.children.bfloat16(), problem.weights, problem.activation
        )
    assert poses.dtype == torch.float32
    assert poses.isfinite().all()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in CASES:
        for votes in ("shared", "full"):
            compare(*chosen, votes, sys.argv[1])
    sys.stdout.write("equal\n")
