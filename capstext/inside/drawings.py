"""What a decoder draws: from one capsule alone, and from a capsule of which one number is moved."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from capstext.inside.examples import Seen
from capstext.models.capsnet import CapsuleNetwork

STEPS = tuple(round(0.05 * step, 2) for step in range(-5, 6))  # Sabour et al. 2017, section 5.1


@torch.no_grad()
def poses(seen: Seen, rows: Sequence[int]) -> Float[Tensor, "rows classes D"]:
    """The class capsules of some images."""
    return seen.network.capsules(seen.images(rows)).poses


@torch.no_grad()
def drawn(seen: Seen, rows: Sequence[int], classes: Sequence[int]) -> Float[Tensor, "rows C H W"]:
    """Each image again, from the capsule of one class. Sabour et al. 2017, figure 3."""
    return _draw(seen, poses(seen, rows), classes)


@torch.no_grad()
def moved(
    seen: Seen, row: int, shown: int, *, steps: Sequence[float] = STEPS
) -> Float[Tensor, "D steps C H W"]:
    """One image again, each number of its class capsule moved by each step. Sabour et al. 2017, figure 4."""
    plain = poses(seen, [row])
    dim = plain.shape[-1]
    changed = plain.repeat(dim * len(steps), 1, 1)
    shifts = torch.eye(dim)[:, None] * torch.tensor(steps)[:, None]  # [D, steps, D]
    changed[:, shown] += shifts.flatten(0, 1).to(changed.device)
    return _draw(seen, changed, [shown] * len(changed)).unflatten(0, (dim, len(steps)))


def _draw(seen: Seen, capsules: Tensor, classes: Sequence[int]) -> Tensor:
    assert isinstance(seen.network, CapsuleNetwork)
    assert seen.network.decoder is not None
    chosen = torch.eye(len(seen.classes), dtype=torch.bool)[list(classes)]
    return seen.network.decoder(capsules, chosen.to(capsules.device))
