"""Work in blocks: results of a block are computed again for the backward pass, so memory holds one block."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

At = tuple[slice, slice]
"""Which problems and which children of [n, I]."""
Run = Callable[..., tuple[Tensor, ...]]
"""(at, children, activation, *shared) -> results of that block."""


class InBlocks(torch.autograd.Function):
    """Results of blocks of problems joined, or of blocks of children added; and the children once more.

    Whoever uses the children next takes the ones returned here: then one gradient is handed from step to step
    and each adds its part to it, instead of one gradient of all children for each step.
    """

    @staticmethod
    def forward(
        ctx: Any,
        run: Run,
        blocks: Sequence[At],
        joined: bool,
        children: Tensor,
        activation: Tensor | None,
        *shared: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.run, ctx.blocks, ctx.joined = run, blocks, joined
        ctx.save_for_backward(children, activation, *shared)
        ctx.set_materialize_grads(False)
        results: list[Any] = []
        for at in blocks:
            found = run(at, children[at], None if activation is None else activation[at], *shared)
            if joined:
                results.append(found)
            elif results:
                for total, term in zip(results, found, strict=True):
                    total += term
            else:
                results = list(found)
        if joined:
            results = [torch.cat(each) for each in zip(*results, strict=True)]
        return (*results, children)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *pulls: Tensor | None) -> tuple[Any, ...]:
        children, activation, *shared = ctx.saved_tensors
        later = pulls[-1]
        totals: list[Tensor | None] = [torch.zeros_like(children) if later is None else own(later)]
        totals += [None if t is None else torch.zeros_like(t) for t in (activation, *shared)]
        with torch.autocast(children.device.type, enabled=False):
            for at in ctx.blocks:
                pieces = [children[at], None if activation is None else activation[at], *shared]
                pieces = [None if t is None else t.detach().requires_grad_() for t in pieces]
                with torch.enable_grad():
                    found = ctx.run(at, *pieces)
                wanted = [
                    (result, pull[at[0]] if ctx.joined else pull)
                    for result, pull in zip(found, pulls[:-1], strict=True)
                    if pull is not None and result.requires_grad
                ]
                given = [t for t in pieces if t is not None]
                gradients = iter(
                    torch.autograd.grad(
                        [result for result, _ in wanted],
                        given,
                        [pull for _, pull in wanted],
                        allow_unused=True,
                    )
                    if wanted
                    else [None] * len(given)
                )
                for place, (total, piece) in enumerate(zip(totals, pieces, strict=True)):
                    if total is None or piece is None:
                        continue
                    gradient = next(gradients)
                    if gradient is not None:
                        (total[at] if place < 2 else total).add_(gradient)
        return None, None, None, *totals


class Total(torch.autograd.Function):
    """Σ_i w_i u_i, and the children once more, as InBlocks hands them on."""

    @staticmethod
    def forward(ctx: Any, children: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(children, weight)
        ctx.set_materialize_grads(False)
        if weight is None:
            return children.sum(dim=-2), children
        return (weight.unsqueeze(-2) @ children).squeeze(-2), children

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *pulls: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        children, weight = ctx.saved_tensors
        pull, later = pulls
        if pull is None:
            return later, None
        with torch.autocast(children.device.type, enabled=False):
            part = pull.unsqueeze(-2)
            d_weight = None
            if weight is not None:
                d_weight = (children @ part.mT).squeeze(-1)
                part = part * weight.unsqueeze(-1)
            return handed_on(part.expand_as(children), later), d_weight


def handed_on(part: Tensor, later: Tensor | None) -> Tensor:
    """The gradient `part` added to that of later steps, in its place."""
    if later is None:
        return part.contiguous()
    return own(later).add_(part)


def own(gradient: Tensor) -> Tensor:
    """A gradient that may be added to: a copy where the compiler or a broadcast still needs it."""
    if torch.compiler.is_compiling() or not gradient.is_contiguous():
        return gradient.clone(memory_format=torch.contiguous_format)
    return gradient
