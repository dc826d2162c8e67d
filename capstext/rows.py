"""The rows of a split as training and evaluation take them: batches of tensors, whatever they are rows of."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from capstext.batching import multi_hot, pad

if TYPE_CHECKING:
    from datasets import Dataset

    from capstext.data.image_corpora import ImageSplit

# What an image costs beside a text: evaluation takes 256 images at a time.
TOKENS_OF_AN_IMAGE = 32


class Rows(Protocol):
    """Inputs of a model, by the names of its arguments, and their labels."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> NDArray[np.integer]:
        """What each row costs, in tokens: rows of like length are put together."""
        ...

    def inputs(self, places: Sequence[int], *, training: bool = False) -> dict[str, Tensor]:
        """A batch for the model; in training it may be changed at random."""
        ...

    def targets(self, places: Sequence[int] | None = None) -> Tensor:
        """Zeros and ones [rows, classes], of some rows or of all."""
        ...

    def fingerprint(self) -> str:
        """A key for inputs and labels, the same wherever they were read from."""
        ...


@dataclass(frozen=True)
class TextRows:
    """Tokenised texts: columns ids, labels and length."""

    table: "Dataset"
    padding_id: int
    classes: int

    def __len__(self) -> int:
        return len(self.table)

    @property
    def lengths(self) -> NDArray[np.integer]:
        return np.asarray(self.table["length"])

    @property
    def ids(self) -> list[list[int]]:
        return self.table["ids"][:]

    def inputs(self, places: Sequence[int], *, training: bool = False) -> dict[str, Tensor]:
        ids, mask = pad(self.table[list(places)]["ids"], padding_id=self.padding_id)
        return {"ids": ids, "mask": mask}

    def targets(self, places: Sequence[int] | None = None) -> Tensor:
        labels = self.table["labels"][:] if places is None else self.table[list(places)]["labels"]
        return multi_hot(labels, classes=self.classes)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for column in ("length", "ids", "labels"):
            for chunk in self.table.data.column(column).chunks:
                values = chunk if column == "length" else chunk.flatten()
                digest.update(values.to_numpy(zero_copy_only=False).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class ImageRows:
    """Images; in training each goes with what is to be drawn, and by the capsules of which classes."""

    split: "ImageSplit"

    def __len__(self) -> int:
        return len(self.split)

    @property
    def lengths(self) -> NDArray[np.integer]:
        return np.full(len(self), TOKENS_OF_AN_IMAGE)

    def inputs(self, places: Sequence[int], *, training: bool = False) -> dict[str, Tensor]:
        chosen = self.split.select(np.asarray(places, dtype=np.int64))
        inputs = {"pixels": _channels_first(chosen.pixels)}
        if not training:
            return inputs
        if chosen.parts is None:
            return inputs | {"shown": torch.from_numpy(chosen.labels)[:, None]}
        shown = torch.from_numpy(chosen.parts.labels)
        return inputs | {"shown": shown, "parts": _channels_first(chosen.parts.pixels)}

    def targets(self, places: Sequence[int] | None = None) -> Tensor:
        labels = self.split.labels if places is None else self.split.labels[list(places)]
        return torch.from_numpy(labels).float()

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self.split.pixels.shape).encode())
        digest.update(np.ascontiguousarray(self.split.pixels).tobytes())
        digest.update(np.ascontiguousarray(self.split.labels).tobytes())
        return digest.hexdigest()


def _channels_first(pixels: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(np.moveaxis(pixels, -1, -3)).contiguous()
