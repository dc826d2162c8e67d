"""Ids become batches: padded, masked, grouped by length, in an order that seed and epoch alone decide."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

# So many batches are shuffled, sorted by length and cut up together: long enough for little padding,
# short enough that batches still differ from epoch to epoch.
BATCHES_SORTED_TOGETHER = 50


class LengthGroupedBatches(Sampler[list[int]]):
    """Shuffled batches of rows of like length; `set_epoch` gives each epoch its own order."""

    def __init__(self, lengths: NDArray[np.integer], *, batch_size: int, seed: int) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.drop_last = False
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        order = random.permutation(len(self.lengths))
        block = self.batch_size * BATCHES_SORTED_TOGETHER
        sorted_blocks = [
            part[np.argsort(self.lengths[part], kind="stable")]
            for part in (order[start : start + block] for start in range(0, len(order), block))
        ]
        rows = np.concatenate(sorted_blocks)
        batches = [rows[start : start + self.batch_size] for start in range(0, len(rows), self.batch_size)]
        # a batch that is not full stays last: accelerate shares batches among processes on that understanding
        full = len(rows) // self.batch_size
        for index in [*random.permutation(full), *range(full, len(batches))]:
            yield batches[index].tolist()


def batches_by_length(lengths: Sequence[int], *, tokens: int) -> Iterator[list[int]]:
    """All rows once, shortest first, in batches of at most `tokens` padded tokens."""
    batch: list[int] = []
    for row in np.argsort(np.asarray(lengths), kind="stable").tolist():
        if batch and (len(batch) + 1) * max(1, lengths[row]) > tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def pad(ids: Sequence[Sequence[int]], *, padding_id: int) -> tuple[Tensor, Tensor]:
    """Ids and mask [batch, length]; at least one position, so that an empty text has a shape."""
    length = max(1, *(len(row) for row in ids))
    padded = np.full((len(ids), length), padding_id, dtype=np.int64)
    mask = np.zeros((len(ids), length), dtype=bool)
    for row, values in enumerate(ids):
        padded[row, : len(values)] = values
        mask[row, : len(values)] = True
    return torch.from_numpy(padded), torch.from_numpy(mask)


def multi_hot(labels: Sequence[Sequence[int]], *, classes: int) -> Tensor:
    """Label lists as a matrix of zeros and ones [batch, classes]."""
    targets = torch.zeros(len(labels), classes)
    for row, values in enumerate(labels):
        targets[row, list(values)] = 1.0
    return targets
