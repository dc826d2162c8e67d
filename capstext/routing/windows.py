"""Windows for convolutional capsules: all capsules of neighbouring places as the children of one window."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


class _Unfold(torch.autograd.Function):
    """Windows of a sequence in one copy; the backward pass adds the overlaps up slice by slice."""

    @staticmethod
    def forward(
        ctx: Any, sequence: Float[Tensor, "B P C d"], window: int, stride: int
    ) -> Float[Tensor, "B Q KC d"]:
        ctx.shape, ctx.window, ctx.stride = sequence.shape, window, stride
        windows = sequence.unfold(1, window, stride)  # [B, Q, C, d, K]
        return windows.permute(0, 1, 4, 2, 3).flatten(2, 3).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        pull = gradients[0].unflatten(2, (ctx.window, -1))
        total = pull.new_zeros(ctx.shape)
        last = (pull.shape[1] - 1) * ctx.stride + 1
        for k in range(ctx.window):
            total[:, k : k + last : ctx.stride] += pull[:, :, k]
        return total, None, None


def sequence_windows(
    sequence: Float[Tensor, "B P C d"], window: int, stride: int = 1
) -> Float[Tensor, "B Q KC d"]:
    """Q = (P - K) // stride + 1 windows of K positions."""
    if not 1 <= window <= sequence.shape[1]:
        raise ValueError(f"window must lie in 1 to {sequence.shape[1]} positions, not {window}")
    return _Unfold.apply(sequence, window, stride)


def image_windows(
    image: Float[Tensor, "B H W C d"], window: int, stride: int = 1
) -> Float[Tensor, "B Y X KKC d"]:
    """Windows of K x K places."""
    height, width, capsules, dim = image.shape[1:]
    if not 1 <= window <= min(height, width):
        raise ValueError(f"window must lie in 1 to {min(height, width)} places, not {window}")
    rows = sequence_windows(image.flatten(2, 3), window, stride)  # [B, Y, K W C, d]
    batch, down = rows.shape[:2]
    rows = rows.view(batch * down, window, width, capsules, dim).transpose(1, 2).flatten(2, 3)
    windows = sequence_windows(rows, window, stride)  # [B Y, X, K K C, d], column before row
    return windows.unflatten(0, (batch, down))
