"""What some networks have beside log-odds: they read token ids, or are solved instead of trained."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class ReadsIds(Protocol):
    """A network that counts words: its input is TokenIds, whatever the section embeddings says."""

    reads_ids: bool

    def sizes(self, rows: Sequence[Sequence[int]], *, words: int) -> dict[str, int]:
        """Options that only the ids of the training rows and the number of words can tell."""
        ...


@runtime_checkable
class Solved(Protocol):
    """A network whose weights are the solution of one convex problem, found without gradient steps."""

    def solve(self, rows: Sequence[Sequence[int]], targets: Tensor, *, multi_label: bool, seed: int) -> None:
        """Find the weights for the ids of the training rows and their multi-hot targets [rows, classes]."""
        ...
