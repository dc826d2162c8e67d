"""The routings as public code writes them: every vote built, [..., I, J, D], and streamed once a step."""

import math

import torch
from torch import Tensor


def squash(poses: Tensor) -> Tensor:
    square = poses.square().sum(dim=-1, keepdim=True)
    return poses * (square / (1 + square) * torch.rsqrt(square + 1e-8))


def shared(children: Tensor, weights: Tensor) -> Tensor:
    """[n, I, d] and [J, d, D] -> [n, I, J, D]."""
    return torch.einsum("nid,jde->nije", children, weights)


def dynamic(votes: Tensor, iterations: int = 3) -> Tensor:
    logits = votes.new_zeros(votes.shape[:-1])
    for step in range(iterations):
        coupling = logits.softmax(dim=-1)
        poses = squash((coupling.unsqueeze(-1) * votes).sum(dim=1))
        if step < iterations - 1:
            logits = logits + (votes * poses.unsqueeze(1)).sum(dim=-1)
    return poses


def k_means(votes: Tensor, iterations: int = 3) -> Tensor:
    logits = votes.new_zeros(votes.shape[:-1])
    for step in range(iterations):
        coupling = logits.softmax(dim=-1)
        drawn = (coupling.unsqueeze(-1) * votes).sum(dim=1)
        if step < iterations - 1:
            centre = drawn / coupling.sum(dim=1).unsqueeze(-1)
            logits = -(votes - centre.unsqueeze(1)).square().sum(dim=-1)
    return squash(drawn)


def em(votes: Tensor, iterations: int = 3, floor: float = 1e-4) -> Tensor:
    shares = torch.full_like(votes[..., 0], 1 / votes.shape[2])
    for step in range(1, iterations + 1):
        share = shares.unsqueeze(-1)
        mass = share.sum(dim=1, keepdim=True)
        mean = (share * votes).sum(dim=1, keepdim=True) / mass
        variance = (share * (votes - mean).square()).sum(dim=1, keepdim=True) / mass + floor
        energy = -(variance.log().sum(dim=-1) / 2) * (1 - 0.95**step)
        if step < iterations:
            density = -((votes - mean).square() / variance + variance.log() + math.log(2 * math.pi)).sum(
                dim=-1
            )
            shares = (density / 2 + torch.nn.functional.logsigmoid(energy)).softmax(dim=-1)
    return mean.squeeze(1)


def full_by_einsum(children: Tensor, weights: Tensor, iterations: int = 3) -> Tensor:
    """Full weights [I, J, d, D], each step an einsum."""
    votes = torch.einsum("nid,ijde->nije", children, weights)
    logits = votes.new_zeros(votes.shape[:-1])
    for step in range(iterations):
        poses = squash(torch.einsum("nij,nije->nje", logits.softmax(dim=-1), votes))
        if step < iterations - 1:
            logits = logits + torch.einsum("nije,nje->nij", votes, poses)
    return poses


def full_by_matmul(children: Tensor, weights: Tensor, iterations: int = 3) -> Tensor:
    """Full weights, votes [n, J, I, D], each step a batched matmul."""
    votes = (children[:, None, :, None, :] @ weights.transpose(0, 1)).squeeze(-2)
    logits = votes.new_zeros(votes.shape[:-1])
    for step in range(iterations):
        poses = squash((logits.softmax(dim=1).unsqueeze(-2) @ votes).squeeze(-2))
        if step < iterations - 1:
            logits = logits + (votes @ poses.unsqueeze(-1)).squeeze(-1)
    return poses


def full_by_elements(children: Tensor, weights: Tensor, iterations: int = 3) -> Tensor:
    """Full weights, each step a product and a sum."""
    return dynamic(torch.einsum("nid,ijde->nije", children, weights), iterations)


WRITTEN = {"dynamic": dynamic, "k-means": k_means, "em": em}
FULL = {"einsum": full_by_einsum, "bmm": full_by_matmul, "elementwise": full_by_elements}
