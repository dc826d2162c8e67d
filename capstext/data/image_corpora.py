"""An ImageCorpus: pixels and labels of every split, cut into splits, and fitted to what a model knows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capstext.data.image_files import Conversions, Shape, fitted
from capstext.data.splits import FOLDED, chosen_rows, fold_rows, require_every_class
from capstext.errors import CapstextError, UsageError


class Parts(NamedTuple):
    """What overlaps in an image, each thing alone, and its class."""

    pixels: NDArray[np.uint8]  # [N, parts, H, W, C]
    labels: NDArray[np.bool_]  # [N, parts, classes]


@dataclass(frozen=True)
class ImageSplit:
    """Images and, for each, which classes it shows."""

    pixels: NDArray[np.uint8]  # [N, H, W, C]
    labels: NDArray[np.bool_]  # [N, classes]
    parts: Parts | None = None

    def __post_init__(self) -> None:
        if self.pixels.ndim != 4 or self.labels.ndim != 2 or len(self.pixels) != len(self.labels):
            raise ValueError(f"pixels {self.pixels.shape} and labels {self.labels.shape} make no split")

    def __len__(self) -> int:
        return len(self.pixels)

    def select(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "ImageSplit":
        parts = self.parts and Parts(self.parts.pixels[rows], self.parts.labels[rows])
        return ImageSplit(self.pixels[rows], self.labels[rows], parts)


@dataclass(frozen=True)
class ImageCorpus:
    """Splits of images that all have one shape; what Corpus is for texts."""

    name: str
    origin: str
    classes: tuple[str, ...]
    splits: Mapping[str, ImageSplit]
    multi_label: bool = False
    notes: tuple[str, ...] = ()

    @property
    def shape(self) -> Shape:
        height, width, channels = next(iter(self.splits.values())).pixels.shape[1:]
        return Shape(height, width, channels)

    @property
    def test_splits(self) -> tuple[str, ...]:
        return tuple(name for name in self.splits if name.startswith("test"))

    def split(self, name: str) -> ImageSplit:
        if name not in self.splits:
            raise UsageError(f"{self.name} has no split {name!r}; splits found: {', '.join(self.splits)}")
        return self.splits[name]


def one_hot(codes: NDArray[np.int64], classes: int) -> NDArray[np.bool_]:
    """Labels [N, classes] of class numbers [N]."""
    return np.arange(classes) == codes[:, None]


def with_cut(corpus: ImageCorpus, name: str, *, share: float, seed: int) -> ImageCorpus:
    """The corpus with a split more, cut from its training images: a share of every class, seeded."""
    if not 0 < share <= 0.5:
        raise UsageError(f"the share of {name} images is {share}; it must be above 0 and at most 0.5")
    train = corpus.split("train")
    chosen = chosen_rows(_strata(train.labels), share, seed)
    if not len(chosen):
        raise CapstextError(
            f"{corpus.name} has too few training images ({len(train)}) to cut {name} images from; "
            f"give a {name} split"
        )
    rest = np.setdiff1d(np.arange(len(train)), chosen)
    splits = {**corpus.splits, "train": train.select(rest), name: train.select(chosen)}
    note = f"{len(chosen):,} {name} images are cut from the training images, stratified, seed {seed}"
    return replace(corpus, splits=splits, notes=(*corpus.notes, note))


def folded(corpus: ImageCorpus, *, index: int, count: int, seed: int) -> ImageCorpus:
    """Fold `index` of `count` over all images as the test split, a share of the others for validation."""
    found = [corpus.splits[name] for name in FOLDED if name in corpus.splits]
    pixels, labels = (
        np.concatenate([getattr(split, name) for split in found]) for name in ("pixels", "labels")
    )
    images = ImageSplit(pixels, labels)
    parts = fold_rows(_strata(labels), name=corpus.name, index=index, count=count, seed=seed)
    splits = {name: images.select(rows) for name, rows in parts.items()}
    shown = np.flatnonzero(splits["train"].labels.any(axis=0))
    require_every_class(corpus.classes, shown, f"{corpus.name}, fold {index} of {count}")
    origin = f"{corpus.origin}; fold {index} of {count}, stratified, seed {seed}"
    return replace(corpus, splits=splits, origin=origin)


def in_shape(corpus: ImageCorpus, shape: Shape) -> ImageCorpus:
    """The corpus with its images scaled and converted to the shape that a model takes, which is noted."""
    if corpus.shape == shape:
        return corpus
    conversions = Conversions()
    splits = {
        name: ImageSplit(
            labels=split.labels,
            pixels=fitted(split.pixels, shape, place=corpus.origin, conversions=conversions),
        )
        for name, split in corpus.splits.items()
    }
    return replace(corpus, splits=splits, notes=(*corpus.notes, *conversions.notes()))


def in_classes(corpus: ImageCorpus, classes: Sequence[str]) -> ImageCorpus:
    """The corpus with the numbers of a model's classes; images of other classes are left out and counted."""
    theirs = {name: number for number, name in enumerate(corpus.classes)}
    columns = [theirs.get(name, len(theirs)) for name in classes]
    strange = [number for name, number in theirs.items() if name not in classes]
    splits, notes = {}, list(corpus.notes)
    for name, split in corpus.splits.items():
        keep = ~split.labels[:, strange].any(axis=1)
        if not keep.all():
            counts = split.labels[:, strange].sum(axis=0)
            named = ", ".join(
                f"{corpus.classes[number]} ({count:,})"
                for number, count in zip(strange, counts, strict=True)
                if count
            )
            notes.append(
                f"split {name}: {(~keep).sum():,} images left out, their labels unknown to the model: {named}"
            )
        chosen = split.select(np.flatnonzero(keep))
        parts = chosen.parts and Parts(chosen.parts.pixels, _columns(chosen.parts.labels, columns))
        splits[name] = ImageSplit(chosen.pixels, _columns(chosen.labels, columns), parts)
    if not any(map(len, splits.values())):
        raise CapstextError(
            f"{corpus.origin}: none of its labels is a class of the model ({', '.join(classes[:20])}); "
            f"{notes[-1]}"
        )
    return replace(corpus, splits=splits, classes=tuple(classes), notes=tuple(notes))


def _columns(labels: NDArray[np.bool_], columns: Sequence[int]) -> NDArray[np.bool_]:
    """Some columns of labels [..., classes]; the one behind the last is for a class that is not here."""
    return np.concatenate([labels, np.zeros_like(labels[..., :1])], axis=-1)[..., columns]


def require_two_classes(corpus: ImageCorpus) -> None:
    if "train" not in corpus.splits:
        return
    used = np.flatnonzero(corpus.splits["train"].labels.any(axis=0))
    if len(used) < 2:
        named = ", ".join(corpus.classes[number] for number in used)
        raise CapstextError(f"{corpus.origin}: one class only ({named}); a classifier needs two")


def _strata(labels: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The rarest class of each image, as for texts."""
    counts = labels.sum(axis=0)
    return np.where(labels, counts, counts.max(initial=0) + 1).argmin(axis=1)
