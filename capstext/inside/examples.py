"""A run and a split go in; what the run sees there comes out: lengths, and images that are right or wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from capstext.data.image_corpora import ImageSplit
from capstext.errors import CapstextError
from capstext.evaluation import log_odds
from capstext.models.capsnet import CapsuleNetwork
from capstext.models.decoder import Decoder
from capstext.models.image import ImageModel
from capstext.models.matrix_capsules import MatrixCapsules
from capstext.rows import ImageRows
from capstext.runs import Run

Network = CapsuleNetwork | MatrixCapsules


@dataclass(frozen=True)
class Seen:
    """A split, and how active the capsule of each class is for each of its images."""

    model: ImageModel
    classes: tuple[str, ...]
    split: ImageSplit
    lengths: NDArray[np.float32]  # [N, classes]

    @property
    def network(self) -> Network:
        assert isinstance(self.model.network, Network)
        return self.model.network

    @property
    def decoder(self) -> Decoder | None:
        return self.model.decoder

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many classes each image shows."""
        return self.split.labels.sum(axis=1)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Classes, the most active first."""
        return np.argsort(-self.lengths, axis=1, kind="stable")

    @cached_property
    def predicted(self) -> NDArray[np.bool_]:
        """As many of the most active classes as the image shows. Sabour et al. 2017, section 6."""
        found = np.zeros_like(self.split.labels)
        np.put_along_axis(found, self.order, np.arange(len(self.classes)) < self.counts[:, None], axis=1)
        return found

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        return (self.predicted == self.split.labels).all(axis=1)

    def images(self, rows: Sequence[int]) -> Tensor:
        """Pixels [rows, C, H, W] in 0 to 1, as the network reads them."""
        return self.model.embedding(ImageRows(self.split).inputs(rows)["pixels"].to(self.device))

    def parts(self, row: int) -> list[tuple[int, Tensor]]:
        """What overlaps in an image, each thing alone: its class and pixels [C, H, W]; none if unknown."""
        if self.split.parts is None:
            return []
        alone = ImageSplit(self.split.parts.pixels[row], self.split.parts.labels[row])
        images = self.model.embedding(ImageRows(alone).inputs(range(len(alone)))["pixels"].to(self.device))
        return list(zip(alone.labels.argmax(axis=1).tolist(), images, strict=True))

    @property
    def device(self) -> torch.device:
        return self.model.calibration.prior.device

    def some(self, rows: NDArray[np.bool_], *, most: int, seed: int) -> list[int]:
        """Some of these rows, of as many classes as can be, drawn at random."""
        drawn = np.random.default_rng(seed).permutation(np.flatnonzero(rows))
        _, first = np.unique(self.split.labels[drawn].argmax(axis=1), return_index=True)
        rest = np.setdiff1d(np.arange(len(drawn)), first)
        return drawn[[*np.sort(first), *rest][:most]].tolist()


def require_capsules(run: Run) -> None:
    """Refuse a run that has no capsules of images to look into."""
    if not isinstance(run.model, ImageModel):
        raise CapstextError(f"{run.folder}: its model reads texts; give a run of a capsule model of images")
    if not isinstance(run.model.network, Network):
        raise CapstextError(
            f"{run.folder}: {run.config.model.name} has no capsules to look into; "
            "give a run of capsnet, capsnet-light or matrix-capsules"
        )


def see(run: Run, split: ImageSplit) -> Seen:
    """Score all images that show anything."""
    require_capsules(run)
    assert isinstance(run.model, ImageModel)
    run.model.eval()
    split = split.select(np.flatnonzero(split.labels.any(axis=1)))
    if not len(split):
        raise CapstextError(f"{run.folder}: no image to look at shows any of its classes")
    lengths = log_odds(run.model, ImageRows(split)).sigmoid()
    return Seen(run.model, run.classes, split, lengths.numpy())
