"""Kinds of votes by name: shared or full weights, plain, of unit Frobenius norm, or for matrix poses."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from capstext.routing.votes import FullVotes, SharedVotes, Votes


def unit_frobenius(weights: Float[Tensor, "*pairs d D"]) -> Float[Tensor, "*pairs d D"]:
    """W / |W|_F, so that no vote is longer than its child. Wang & Liu 2018."""
    return weights / weights.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-12)


def row_by_row(weights: Float[Tensor, "*pairs k e"], dim: int) -> Float[Tensor, "*pairs d D"]:
    """The matrix that maps vec(P) to vec(P W) for poses P of dim numbers."""
    rows = torch.eye(dim // weights.shape[-2], dtype=weights.dtype, device=weights.device)
    return torch.einsum("rs,...ke->...rkse", rows, weights).flatten(-4, -3).flatten(-2)


def shared_normalised(*, children: Tensor, weights: Tensor, activation: Tensor | None = None) -> Votes:
    """Shared votes of W_j / |W_j|_F. Wang & Liu 2018."""
    return SharedVotes(children=children, weights=unit_frobenius(weights), activation=activation)


def full_normalised(*, children: Tensor, weights: Tensor, activation: Tensor | None = None) -> Votes:
    """Full votes of W_ij / |W_ij|_F. Wang & Liu 2018."""
    return FullVotes(children=children, weights=unit_frobenius(weights), activation=activation)


def shared_matrix(*, children: Tensor, weights: Tensor, activation: Tensor | None = None) -> Votes:
    """Votes P_i W_j of square pose matrices. Hinton et al. 2018."""
    return SharedVotes(
        children=children, weights=row_by_row(weights, children.shape[-1]), activation=activation
    )


def full_matrix(*, children: Tensor, weights: Tensor, activation: Tensor | None = None) -> Votes:
    """Votes P_i W_ij of square pose matrices. Hinton et al. 2018."""
    return FullVotes(
        children=children,
        weights=weights,
        activation=activation,
        rows=children.shape[-1] // weights.shape[-2],
    )


VOTES: dict[str, Callable[..., Votes]] = {
    "shared": SharedVotes,
    "full": FullVotes,
    "shared-normalised": shared_normalised,
    "full-normalised": full_normalised,
    "shared-matrix": shared_matrix,
    "full-matrix": full_matrix,
}


def weights_shape(kind: str, *, children: int, parents: int, in_dim: int, out_dim: int) -> tuple[int, ...]:
    """The shape of the weights that votes of that kind take."""
    if kind not in VOTES:
        raise ValueError(f"unknown weights {kind!r}; choose from: {', '.join(VOTES)}")
    pairs = (parents,) if kind.startswith("shared") else (children, parents)
    if not kind.endswith("matrix"):
        return (*pairs, in_dim, out_dim)
    side = round(in_dim**0.5)
    if side * side != in_dim or in_dim != out_dim:
        raise ValueError(
            f"weights {kind!r} need equal square dimensions such as 16, not {in_dim} and {out_dim}"
        )
    return (*pairs, side, side)
