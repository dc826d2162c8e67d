"""How long the rest of a comparison will take, from what its tasks took so far."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from capstext.comparison.grid import Cell


class TimeLeft:
    """Seconds for all that is left: each task as long as its like, or as the mean of all."""

    def __init__(self, cells: Sequence[Cell], *, workers: int) -> None:
        self.waiting = list(cells)  # one entry a task
        self.workers = workers
        self.shares: dict[str, float] = {}  # of running tasks, by title
        self.took: dict[tuple[str, ...], list[float]] = defaultdict(list)

    def share(self, title: str, share: float) -> None:
        self.shares[title] = share

    def end(self, title: str, cell: Cell, seconds: float) -> None:
        self.shares.pop(title, None)
        self.waiting.remove(cell)
        for key in _likes(cell):
            self.took[key].append(seconds)

    @property
    def done(self) -> float:
        """Tasks' worth of work that is done among those that run."""
        return sum(self.shares.values())

    def seconds(self) -> float | None:
        if not self.took or not self.waiting:
            return None
        expected = [self._expected(cell) for cell in self.waiting]
        rest = max(sum(expected) - self.done * fmean(expected), 0.0)
        return rest / min(self.workers, len(self.waiting))

    def _expected(self, cell: Cell) -> float:
        return fmean(next(took for key in _likes(cell) if (took := self.took.get(key))))


def _likes(cell: Cell) -> list[tuple[str, ...]]:
    """From the nearest to the widest."""
    return [(cell.dataset, cell.model, cell.embeddings), (cell.dataset, cell.model), (cell.dataset,), ()]
