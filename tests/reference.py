"""Routings as slow loops over numbers in float64, straight from the papers; they share no code with capstext.

A problem is one list of children: votes[i][j] is a vector, activation[i] a number (0 is padding). Outputs are
poses [J, D], activations [J] and the couplings of every iteration [I, J]. Torch does the arithmetic of single
numbers and vectors only, and its autograd follows it: gradients come from these loops as well.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Number = Tensor  # of no dimension
Vector = Tensor
Table = list[list[Tensor]]  # [i][j]: a number or a vector for each child and parent

ZERO = torch.zeros((), dtype=torch.float64)
NOBODY = 1e-20  # a parent with no more than this of all children has none


def shared_votes(children: Tensor, weights: Tensor) -> Table:
    """û_{j|i} = W_jᵀ u_i."""
    return [[matrix.T @ child for matrix in weights] for child in children]


def full_votes(children: Tensor, weights: Tensor) -> Table:
    """û_{j|i} = W_ijᵀ u_i."""
    return [[matrix.T @ child for matrix in row] for child, row in zip(children, weights, strict=True)]


def matrix_votes(children: Tensor, weights: Tensor) -> Table:
    """P_i W_j or P_i W_ij of square matrices."""
    side = weights.shape[-1]
    rows = weights if weights.dim() == 4 else [weights] * len(children)
    return [
        [(child.reshape(side, side) @ matrix).reshape(-1) for matrix in row]
        for child, row in zip(children, rows, strict=True)
    ]


def normalised(weights: Tensor) -> Tensor:
    """W / |W|_F for every pair."""
    flat = weights.reshape(-1, *weights.shape[-2:])
    return torch.stack([w / (w * w).sum().sqrt() for w in flat]).reshape(weights.shape)


def length(vector: Vector) -> Number:
    square = vector @ vector
    return square.sqrt() if square > 0 else ZERO


def direction(vector: Vector) -> Vector:
    norm = length(vector)
    return vector / norm if norm > 0 else vector * 0


def squash(vector: Vector, kind: str) -> Vector:
    norm = length(vector)
    if kind == "exponential":
        return (1 - torch.exp(-norm)) / norm * vector if norm > 0 else vector
    return norm / ({"sabour": 1.0, "release": 0.5}[kind] + norm**2) * vector


def nothing_known(votes: Table) -> Table:
    """Logits before the first iteration."""
    return [[ZERO for _ in row] for row in votes]


def couplings(logits: Table, leaky: bool, kept: Tensor | None) -> Table:
    """Softmax over the kept parents of each child, with one more parent of logit 0 where leaky."""
    result = []
    for i, row in enumerate(logits):
        chosen = [j for j in range(len(row)) if kept is None or kept[i, j]]
        # Any number may be taken off all logits; the largest keeps the exponentials finite.
        top = max([row[j].item() for j in chosen] + ([0.0] if leaky else []))
        powers = {j: torch.exp(row[j] - top) for j in chosen}
        below = sum(powers.values()) + (math.exp(-top) if leaky else 0.0)
        result.append([powers[j] / below if j in powers else ZERO for j in range(len(row))])
    return result


def weigh(coupling: Table, activation: Sequence[Number], amendment: bool) -> Table:
    """Padding casts no vote; amended couplings are scaled by the child's activation."""
    result = []
    for row, active in zip(coupling, activation, strict=True):
        if active == 0:
            result.append([ZERO for _ in row])
        else:
            result.append([share * active if amendment else share for share in row])
    return result


def gather(coupling: Table, votes: Table) -> list[Vector]:
    """Σ_i c_ij û_{j|i}."""
    children, parents = range(len(votes)), range(len(votes[0]))
    return [sum(coupling[i][j] * votes[i][j] for i in children) for j in parents]


def masses(coupling: Table) -> list[Number]:
    """Σ_i c_ij."""
    return [sum(column) for column in zip(*coupling, strict=True)]


def agreement(votes: Table, poses: list[Vector]) -> Table:
    """<û_{j|i}, v_j>."""
    return [[vote @ pose for vote, pose in zip(row, poses, strict=True)] for row in votes]


def dynamic(
    votes, activation, *, iterations=3, squash_kind="sabour", leaky=False, amendment=False, kept=None
):
    """Sabour et al. 2017, procedure 1; He 2018, algorithm 1."""
    logits = nothing_known(votes)
    seen = []
    for _ in range(iterations):
        coupling = couplings(logits, leaky, kept)
        seen.append(weigh(coupling, activation, False))
        sums = gather(weigh(coupling, activation, amendment), votes)
        poses = [squash(s, squash_kind) for s in sums]
        agreed = agreement(votes, poses)
        logits = [
            [b + more for b, more in zip(*rows, strict=True)] for rows in zip(logits, agreed, strict=True)
        ]
    return poses, [length(pose) for pose in poses], seen


def fixed_point(
    votes, activation, *, iterations=3, squash_kind="sabour", leaky=False, amendment=False, kept=None
):
    """Su 2018: logits are replaced, not added to."""
    logits = nothing_known(votes)
    seen = []
    for _ in range(iterations):
        coupling = couplings(logits, leaky, kept)
        seen.append(weigh(coupling, activation, False))
        sums = gather(weigh(coupling, activation, amendment), votes)
        poses = [squash(s, squash_kind) for s in sums]
        logits = agreement(votes, poses)
    return poses, [length(pose) for pose in poses], seen


def regularised(
    votes, activation, *, iterations=3, alpha=1.0, decay=0.5, leaky=False, amendment=False, kept=None
):
    """Wang & Liu 2018; He 2018, algorithm 2."""
    logits = nothing_known(votes)
    seen = []
    for step in range(iterations):
        coupling = couplings(logits, leaky, kept)
        seen.append(weigh(coupling, activation, False))
        sums = gather(weigh(coupling, activation, amendment), votes)
        centres = [direction(s) for s in sums]
        price = alpha * decay**step
        logits = [[agreed / price for agreed in row] for row in agreement(votes, centres)]
    norms = [length(s) for s in sums]
    weights = [norm / (1 + max(norms)) for norm in norms]
    return [centre * weight for centre, weight in zip(centres, weights, strict=True)], weights, seen


def k_means(
    votes,
    activation,
    *,
    iterations=3,
    distance="inner",
    temperature=1.0,
    squash_kind="sabour",
    leaky=False,
    amendment=False,
    kept=None,
):
    """Su 2018, with K = 1 / temperature."""
    logits = nothing_known(votes)
    seen = []
    for _ in range(iterations):
        coupling = couplings(logits, leaky, kept)
        seen.append(weigh(coupling, activation, False))
        counted = weigh(coupling, activation, amendment)
        sums = gather(counted, votes)
        if distance == "inner":
            centres = [direction(s) for s in sums]
            logits = [[agreed / temperature for agreed in row] for row in agreement(votes, centres)]
        else:
            mass = masses(counted)
            centres = [s / m if m > NOBODY else s for s, m in zip(sums, mass, strict=True)]
            gaps = [[vote - centre for vote, centre in zip(row, centres, strict=True)] for row in votes]
            logits = [[-(gap @ gap) / temperature for gap in row] for row in gaps]
    poses = [squash(s, squash_kind) for s in sums]
    return poses, [length(pose) for pose in poses], seen


def em(
    votes,
    activation,
    *,
    iterations=3,
    cost="r",
    prior="activation",
    inverse_temperature=1.0,
    floor=1e-4,
    beta_u=None,
    beta_a=None,
    leaky=False,
    kept=None,
):
    """Hinton et al. 2018; Su 2018, the complete form. R is uniform at first, λ rises."""
    children, parents = range(len(votes)), range(len(votes[0]))
    beta_u = [ZERO for _ in parents] if beta_u is None else beta_u
    beta_a = [ZERO for _ in parents] if beta_a is None else beta_a
    logits = nothing_known(votes)
    seen = []
    for step in range(1, iterations + 1):
        shares = couplings(logits, leaky, kept)
        seen.append(weigh(shares, activation, False))
        counted = weigh(shares, activation, True)
        mass = masses(counted)
        rate = inverse_temperature * (1 - 0.95**step)
        means, active = [], []
        logits = nothing_known(votes)
        for j in parents:
            # M-step
            r = [counted[i][j] / mass[j] if mass[j] > NOBODY else counted[i][j] for i in children]
            mean = sum(r[i] * votes[i][j] for i in children)
            variance = sum(r[i] * (votes[i][j] - mean) ** 2 for i in children) + floor
            price = beta_u[j] + 0.5 * torch.log(variance).sum()
            energy = rate * (beta_a[j] - price * (mass[j] if cost == "aR" else 1.0))
            log_active = -torch.logaddexp(ZERO, -energy)
            means.append(mean)
            active.append(torch.exp(log_active) if mass[j] > NOBODY else ZERO)
            # E-step
            log_prior = log_active if prior == "activation" else log_of(mass[j]) - log_of(sum(mass))
            constant = log_prior - 0.5 * torch.log(2 * math.pi * variance).sum()
            for i in children:
                logits[i][j] = constant - 0.5 * ((votes[i][j] - mean) ** 2 / variance).sum()
    return means, active, seen


def static(votes, activation, *, squash_kind="sabour", leaky=False, amendment=False, kept=None):
    """Kim et al. 2018: a child's shares are equal, whoever agrees."""
    shares = []
    for i, row in enumerate(votes):
        chosen = [1.0 if kept is None or kept[i, j] else 0.0 for j in range(len(row))]
        shares.append([ZERO + one / (sum(chosen) + leaky) for one in chosen])
    sums = gather(weigh(shares, activation, amendment), votes)
    poses = [squash(s, squash_kind) for s in sums]
    return poses, [length(pose) for pose in poses], [weigh(shares, activation, False)]


def log_of(mass: Number) -> Number:
    return torch.log(mass) if mass > NOBODY else ZERO + math.log(NOBODY)


ROUTINGS = {
    "dynamic": dynamic,
    "fixed-point": fixed_point,
    "regularised": regularised,
    "k-means": k_means,
    "em": em,
    "static": static,
}
