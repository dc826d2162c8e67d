"""Routings as slow loops in float64, straight from the papers; they share no code with capstext.

A problem is one list of children: votes[i][j] is a vector, activation[i] a number (0 is padding). Outputs are
poses [J, D], activations [J] and the couplings of every iteration [I, J].
"""

import math

import numpy as np

Array = np.ndarray
NOBODY = 1e-20  # a parent with no more than this of all children has none


def shared_votes(children: Array, weights: Array) -> Array:
    """û_{j|i} = W_jᵀ u_i: [I, J, D]."""
    return np.array([[weights[j].T @ child for j in range(len(weights))] for child in children])


def full_votes(children: Array, weights: Array) -> Array:
    """û_{j|i} = W_ijᵀ u_i."""
    return np.array(
        [[weights[i, j].T @ children[i] for j in range(weights.shape[1])] for i in range(len(children))]
    )


def normalised(weights: Array) -> Array:
    """W / |W|_F for every pair."""
    flat = weights.reshape(-1, *weights.shape[-2:])
    return np.array([w / math.sqrt((w * w).sum()) for w in flat]).reshape(weights.shape)


def matrix_votes(children: Array, weights: Array) -> Array:
    """P_i W_j or P_i W_ij of square matrices."""
    shared = weights.ndim == 3
    side = weights.shape[-1]
    parents = weights.shape[0] if shared else weights.shape[1]
    return np.array(
        [
            [
                (child.reshape(side, side) @ (weights[j] if shared else weights[i, j])).reshape(-1)
                for j in range(parents)
            ]
            for i, child in enumerate(children)
        ]
    )


def squash(vector: Array, kind: str) -> Array:
    norm = math.sqrt(float(vector @ vector))
    if norm == 0:
        return vector * 0
    lengths = {
        "sabour": norm**2 / (1 + norm**2),
        "release": norm**2 / (0.5 + norm**2),
        "exponential": 1 - math.exp(-norm),
    }
    return lengths[kind] * vector / norm


def couplings(logits: Array, leaky: bool, kept: Array | None) -> Array:
    """Softmax over the kept parents of each child, with one more parent of logit 0 where leaky."""
    result = np.zeros_like(logits)
    for i, row in enumerate(logits):
        chosen = [j for j in range(len(row)) if kept is None or kept[i, j]]
        top = max([row[j] for j in chosen] + ([0.0] if leaky else []))
        below = sum(math.exp(row[j] - top) for j in chosen) + (math.exp(-top) if leaky else 0.0)
        for j in chosen:
            result[i, j] = math.exp(row[j] - top) / below
    return result


def weigh(coupling: Array, activation: Array, amendment: bool) -> Array:
    """Padding casts no vote; amended couplings are scaled by the child's activation."""
    factor = activation if amendment else (activation != 0).astype(float)
    return coupling * factor[:, None]


def gather(coupling: Array, votes: Array) -> Array:
    """Σ_i c_ij û_{j|i}."""
    children, parents, dim = votes.shape
    total = np.zeros((parents, dim))
    for i in range(children):
        for j in range(parents):
            total[j] += coupling[i, j] * votes[i, j]
    return total


def agreement(votes: Array, poses: Array) -> Array:
    """<û_{j|i}, v_j>."""
    return np.array([[vote @ poses[j] for j, vote in enumerate(row)] for row in votes])


def lengths(poses: Array) -> Array:
    return np.array([math.sqrt(pose @ pose) for pose in poses])


def dynamic(
    votes, activation, *, iterations=3, squash_kind="sabour", leaky=False, amendment=False, kept=None
):
    """Sabour et al. 2017, procedure 1; He 2018, algorithm 1."""
    logits = np.zeros(votes.shape[:2])
    seen = []
    for _ in range(iterations):
        coupling = couplings(logits, leaky, kept)
        seen.append(weigh(coupling, activation, False))
        poses = np.array(
            [squash(s, squash_kind) for s in gather(weigh(coupling, activation, amendment), votes)]
        )
        logits = logits + agreement(votes, poses)
    return poses, lengths(poses), seen


def fixed_point(
    votes, activation, *, iterations=3, squash_kind="sabour", leaky=False, amendment=False, kept=None
):
    """Su 2018: logits are replaced, not added to."""
    logits = np.zeros(votes.shape[:2])
    seen = []
    for _ in range(iterations):
        coupling = couplings(logits, leaky, kept)
        seen.append(weigh(coupling, activation, False))
        poses = np.array(
            [squash(s, squash_kind) for s in gather(weigh(coupling, activation, amendment), votes)]
        )
        logits = agreement(votes, poses)
    return poses, lengths(poses), seen


def regularised(
    votes, activation, *, iterations=3, alpha=1.0, decay=0.5, leaky=False, amendment=False, kept=None
):
    """Wang & Liu 2018; He 2018, algorithm 2."""
    logits = np.zeros(votes.shape[:2])
    seen = []
    for step in range(iterations):
        coupling = couplings(logits, leaky, kept)
        seen.append(weigh(coupling, activation, False))
        sums = gather(weigh(coupling, activation, amendment), votes)
        centres = np.array([s / math.sqrt(s @ s) if s @ s > 0 else s for s in sums])
        logits = agreement(votes, centres) / (alpha * decay**step)
    norms = lengths(sums)
    weights = norms / (1 + norms.max())
    return centres * weights[:, None], weights, seen


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
    children, parents, _ = votes.shape
    logits = np.zeros((children, parents))
    seen = []
    for _ in range(iterations):
        coupling = couplings(logits, leaky, kept)
        seen.append(weigh(coupling, activation, False))
        counted = weigh(coupling, activation, amendment)
        sums = gather(counted, votes)
        if distance == "inner":
            centres = [s / math.sqrt(s @ s) if s @ s > 0 else s for s in sums]
            logits = agreement(votes, centres) / temperature
        else:
            mass = counted.sum(axis=0)
            centres = [sums[j] / mass[j] if mass[j] > NOBODY else sums[j] for j in range(parents)]
            for i in range(children):
                for j in range(parents):
                    gap = votes[i, j] - centres[j]
                    logits[i, j] = -(gap @ gap) / temperature
    poses = np.array([squash(s, squash_kind) for s in sums])
    return poses, lengths(poses), seen


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
    children, parents, dim = votes.shape
    beta_u = np.zeros(parents) if beta_u is None else beta_u
    beta_a = np.zeros(parents) if beta_a is None else beta_a
    logits = np.zeros((children, parents))
    seen = []
    for step in range(1, iterations + 1):
        shares = couplings(logits, leaky, kept)
        seen.append(weigh(shares, activation, False))
        counted = weigh(shares, activation, True)
        mass = counted.sum(axis=0)
        means, active, log_prior = np.zeros((parents, dim)), np.zeros(parents), np.zeros(parents)
        rate = inverse_temperature * (1 - 0.95**step)
        logits = np.zeros((children, parents))
        for j in range(parents):
            r = counted[:, j] / mass[j] if mass[j] > NOBODY else counted[:, j]
            means[j] = sum(r[i] * votes[i, j] for i in range(children))
            variance = sum(r[i] * (votes[i, j] - means[j]) ** 2 for i in range(children)) + floor
            price = beta_u[j] + 0.5 * np.log(variance).sum()
            energy = rate * (beta_a[j] - price * (mass[j] if cost == "aR" else 1.0))
            weight = -np.logaddexp(0.0, -energy)
            active[j] = math.exp(weight) if mass[j] > NOBODY else 0.0
            share = math.log(max(mass[j], NOBODY)) - math.log(max(mass.sum(), NOBODY))
            log_prior[j] = weight if prior == "activation" else share
            for i in range(children):
                log_density = -0.5 * (
                    np.log(2 * math.pi * variance) + (votes[i, j] - means[j]) ** 2 / variance
                )
                logits[i, j] = log_prior[j] + log_density.sum()
    return means, active, seen


ROUTINGS = {
    "dynamic": dynamic,
    "fixed-point": fixed_point,
    "regularised": regularised,
    "k-means": k_means,
    "em": em,
}
