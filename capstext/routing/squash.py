"""Squashing: vectors of any length in, vectors of the same direction and a length below 1 out."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

LIMIT = 1e17
"""Components beyond it are cut, so that squares stay finite in float32."""


def sabour(norm: Tensor) -> tuple[Tensor, Tensor]:
    """Length n²/(1+n²). Sabour et al. 2017, equation 1."""
    below = 1 + norm * norm
    return norm / below, (2 / below - 1) / below


def release(norm: Tensor) -> tuple[Tensor, Tensor]:
    """Length n²/(0.5+n²). The code released with Zhao et al. 2018."""
    below = 0.5 + norm * norm
    return norm / below, (1 / below - 1) / below


def exponential(norm: Tensor) -> tuple[Tensor, Tensor]:
    """Length 1-exp(-n), the other squash of the code released with Zhao et al. 2018."""
    safe = norm.clamp(min=1e-4)
    factor = torch.where(norm < safe, 1 - norm / 2, -torch.expm1(-safe) / safe)
    slope = torch.where(norm < safe, -0.5 + norm / 3, ((-safe).exp() - factor) / safe)
    return factor, slope


SQUASHES: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "sabour": sabour,
    "release": release,
    "exponential": exponential,
}
"""Name -> the factor on the vector for its norm, and the derivative of that factor."""


class Squash(torch.autograd.Function):
    """x f(|x|): two passes over x, none of them dividing by a norm that may be 0."""

    @staticmethod
    def forward(
        ctx: Any, poses: Float[Tensor, "*lead D"], factor: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> Float[Tensor, "*lead D"]:
        poses = poses.clamp(-LIMIT, LIMIT)
        norm = poses.norm(dim=-1, keepdim=True)
        scale, slope = factor(norm)
        ctx.save_for_backward(poses, norm, scale, slope)
        return poses * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        poses, norm, scale, slope = ctx.saved_tensors
        pull = gradients[0]
        along = torch.where(norm > 0, slope / norm, 0.0) * (pull * poses).sum(dim=-1, keepdim=True)
        return torch.addcmul(pull * scale, poses, along), None


def squash_by_name(name: str) -> Callable[[Tensor], Tensor]:
    """The squash of that name."""
    if name not in SQUASHES:
        raise ValueError(f"unknown squash {name!r}; choose from: {', '.join(SQUASHES)}")
    factor = SQUASHES[name]
    return lambda poses: Squash.apply(poses, factor)


def length(poses: Float[Tensor, "*lead D"]) -> Float[Tensor, "*lead"]:
    """The length of squashed capsules, never above 1 by rounding."""
    return poses.norm(dim=-1).clamp(max=1.0)


def unit(poses: Float[Tensor, "*lead D"]) -> Float[Tensor, "*lead D"]:
    """Vectors of length 1; those shorter than 1e-12 have no direction and become 0."""
    poses = poses.clamp(-LIMIT, LIMIT)
    norm = poses.norm(dim=-1, keepdim=True)
    found = norm > 1e-12
    return torch.where(found, poses / torch.where(found, norm, 1.0), 0.0)
