"""How a child shares itself among the parents: logits [..., I, J] in, couplings of the same shape out."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

SOFTMAXES = ("plain", "leaky", "sampled", "leaky-sampled")
DRAWS = 1024
"""Sets of parents drawn at each call; every child takes one of them, which spares I x J random numbers."""


@dataclass(frozen=True)
class Softmax:
    """Softmax over parents; leaky adds a parent of logit 0; sampled keeps a random set for each child."""

    parents: int
    leaky: bool = False
    barred: Float[Tensor, "T J"] | None = None  # 0 or -inf, one row a drawn set
    drawn: Int[Tensor, "*lead I"] | None = None  # row of `barred` for each child

    def __call__(self, logits: Tensor, dim: int = -1) -> Tensor:
        """Couplings of logits [..., I, J], or of [..., J, I] where dim is -2."""
        if self.barred is not None and self.drawn is not None:
            barred = functional.embedding(self.drawn, self.barred)
            logits = logits + (barred if dim == -1 else barred.mT)
        if not self.leaky:
            return logits.softmax(dim=dim)
        with_leak = functional.pad(logits, (0, 1) if dim == -1 else (0, 0, 0, 1))
        return with_leak.softmax(dim=dim).narrow(dim, 0, self.parents)

    def uniform(self) -> Float[Tensor, "*lead I J"] | float:
        """Couplings of zero logits: one number where all children share alike."""
        if self.barred is None or self.drawn is None:
            return 1.0 / (self.parents + self.leaky)
        kept = self.barred.exp()
        return functional.embedding(self.drawn, kept / (kept.sum(dim=-1, keepdim=True) + self.leaky))

    def flat(self) -> "Softmax":
        """The softmax of the same children with one leading dimension."""
        drawn = None if self.drawn is None else self.drawn.reshape(-1, self.drawn.shape[-1])
        return Softmax(self.parents, self.leaky, self.barred, drawn)

    def part(self, rows: slice, some: slice) -> "Softmax":
        """The softmax of some problems and children of [n, I]."""
        if self.drawn is None:
            return self
        return Softmax(self.parents, self.leaky, self.barred, self.drawn[rows, some])


def softmax_by_name(
    name: str, *, children: Float[Tensor, "*lead I d"], parents: int, keep: float, training: bool
) -> Softmax:
    """The softmax of that name, with parents drawn for each child where it samples and training goes on."""
    if name not in SOFTMAXES:
        raise ValueError(f"unknown softmax {name!r}; choose from: {', '.join(SOFTMAXES)}")
    if not 0.0 < keep <= 1.0:
        raise ValueError(f"keep must lie in (0, 1], not {keep}")
    leaky = name.startswith("leaky")
    if not (training and name.endswith("sampled") and keep < 1.0):
        return Softmax(parents, leaky)
    barred = draw_sets(parents, keep, children)
    drawn = torch.randint(DRAWS, children.shape[:-1], device=children.device)
    return Softmax(parents, leaky, barred, drawn)


def draw_sets(parents: int, keep: float, like: Tensor) -> Float[Tensor, "T J"]:
    """Random sets of parents: 0 where kept, -inf elsewhere; a share `keep` on average, never none."""
    order = torch.rand(DRAWS, parents, device=like.device).argsort(dim=-1).argsort(dim=-1)
    size = (keep * parents + torch.rand(DRAWS, 1, device=like.device)).floor().clamp(min=1.0)
    nothing = torch.zeros((), dtype=like.dtype, device=like.device)
    return torch.where(order < size, nothing, -torch.inf)
