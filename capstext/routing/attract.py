"""The step that inner-product routings share, without couplings in memory and with a hand-derived backward.

Children [n, I, d] and one key for each parent [n, J, d] in; what each parent draws together [n, J, d] out:
Σ_i w_i c_ij u_i with c_i = softmax_j <u_i, key_j>. Problems and children pass in blocks that stay in the
cache; the backward pass computes the couplings of a block again.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from capstext.routing.softmax import Softmax

COUPLINGS = 1 << 17
"""Couplings computed at once."""


def blocks(problems: int, children: int, parents: int) -> Iterator[tuple[slice, slice]]:
    """Slices of problems and children with at most COUPLINGS couplings; all at once under torch.compile."""
    if torch.compiler.is_compiling():
        yield slice(None), slice(None)
        return
    width = max(1, min(children, COUPLINGS // parents))
    height = max(1, COUPLINGS // (width * parents))
    for top in range(0, problems, height):
        for left in range(0, children, width):
            yield slice(top, top + height), slice(left, left + width)


class Attract(torch.autograd.Function):
    """Σ_i w_i softmax_j(<u_i, key_j>) u_i for every parent j."""

    @staticmethod
    def forward(
        ctx: Any,
        children: Float[Tensor, "n I d"],
        keys: Float[Tensor, "n J d"],
        weight: Float[Tensor, "n I"] | None,
        softmax: Softmax,
    ) -> Float[Tensor, "n J d"]:
        ctx.save_for_backward(children, keys, weight)
        ctx.softmax = softmax
        drawn = torch.zeros_like(keys)
        for rows, some in blocks(children.shape[0], children.shape[1], keys.shape[1]):
            u = children[rows, some]
            coupling = softmax.part(rows, some)(keys[rows] @ u.mT, dim=-2)  # [n, J, I]
            if weight is not None:
                coupling = coupling * weight[rows, None, some]
            drawn[rows].baddbmm_(coupling, u)
        return drawn

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        children, keys, weight = ctx.saved_tensors
        pull = gradients[0].contiguous()
        d_children, d_keys = torch.empty_like(children), torch.zeros_like(keys)
        d_weight = children.new_empty(0) if weight is None else torch.empty_like(weight)
        for rows, some in blocks(children.shape[0], children.shape[1], keys.shape[1]):
            u, k, g = children[rows, some], keys[rows], pull[rows]
            coupling = ctx.softmax.part(rows, some)(k @ u.mT, dim=-2)
            given, slope = coupling, g @ u.mT  # slope: d loss / d (w c)
            if weight is not None:
                w = weight[rows, None, some]
                d_weight[rows, some] = (slope * coupling).sum(dim=-2)
                given, slope = coupling * w, slope * w
            # d loss / d logits = c (slope - Σ_j c slope), with or without a leak
            slope = torch._softmax_backward_data(slope, coupling, -2, coupling.dtype)
            d_children[rows, some] = torch.baddbmm(given.mT @ g, slope.mT, k)
            d_keys[rows].baddbmm_(slope, u)
        return d_children, d_keys, None if weight is None else d_weight, None
