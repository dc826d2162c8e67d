"""The step that inner-product routings share, without couplings in memory and with a hand-derived backward.

Children [n, I, d], poses [n, J, D] and weights [J, d, D] in; what each parent draws together [n, J, d] out:
Σ_i w_i c_ij u_i with c_i = softmax_j <u_i, W_j v_j>, and the children once more, as InBlocks hands them on.
Problems and children pass in blocks that stay in the cache; couplings are computed again for the backward.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from capstext.routing.blocks import own
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
    """Σ_i w_i softmax_j(<u_i, W_j v_j>) u_i for every parent j."""

    @staticmethod
    def forward(
        ctx: Any,
        children: Float[Tensor, "n I d"],
        poses: Float[Tensor, "n J D"],
        weights: Float[Tensor, "J d D"],
        presence: Float[Tensor, "n I"] | None,
        softmax: Softmax,
    ) -> tuple[Float[Tensor, "n J d"], Float[Tensor, "n I d"]]:
        ctx.save_for_backward(children, poses, weights, presence)
        ctx.set_materialize_grads(False)
        ctx.softmax = softmax
        keys = torch.einsum("nje,jde->njd", poses, weights)
        drawn = torch.zeros_like(keys)
        for rows, some in blocks(children.shape[0], children.shape[1], keys.shape[1]):
            u = children[rows, some]
            coupling = softmax.part(rows, some)(keys[rows] @ u.mT, dim=-2)  # [n, J, I]
            if presence is not None:
                coupling = coupling * presence[rows, None, some]
            drawn[rows] += coupling @ u
        return drawn, children

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *pulls: Tensor | None) -> tuple[Tensor | None, ...]:
        pull, later = pulls
        if pull is None:
            return later, None, None, None, None
        children, poses, weights, presence = ctx.saved_tensors
        with torch.autocast(pull.device.type, enabled=False):
            keys = torch.einsum("nje,jde->njd", poses, weights)
            d_children, d_keys, d_presence = _attract_backward(
                ctx.softmax, children, keys, presence, pull.contiguous(), later
            )
            d_poses = torch.einsum("njd,jde->nje", d_keys, weights)
            d_weights = torch.einsum("njd,nje->jde", d_keys, poses)
        return d_children, d_poses, d_weights, d_presence, None


def _attract_backward(
    softmax: Softmax,
    children: Float[Tensor, "n I d"],
    keys: Float[Tensor, "n J d"],
    presence: Float[Tensor, "n I"] | None,
    pull: Float[Tensor, "n J d"],
    later: Float[Tensor, "n I d"] | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of children (those of later steps included), keys and presence."""
    d_children = torch.empty_like(children) if later is None else own(later)
    d_keys = torch.zeros_like(keys)
    d_presence = None if presence is None else torch.empty_like(presence)
    for rows, some in blocks(children.shape[0], children.shape[1], keys.shape[1]):
        u, k, g = children[rows, some], keys[rows], pull[rows]
        coupling = softmax.part(rows, some)(k @ u.mT, dim=-2)
        given, slope = coupling, g @ u.mT  # slope: d loss / d (w c)
        if presence is not None and d_presence is not None:
            w = presence[rows, None, some]
            d_presence[rows, some] = (slope * coupling).sum(dim=-2)
            given, slope = coupling * w, slope * w
        # d loss / d logits = c (slope - Σ_j c slope), with or without a leak
        slope = torch._softmax_backward_data(slope, coupling, -2, coupling.dtype)
        d_keys[rows] += slope @ u
        part = (given.mT @ g).add_(slope.mT @ k)
        if later is not None:
            part += d_children[rows, some]
        d_children[rows, some] = part
    return d_children, d_keys, d_presence
