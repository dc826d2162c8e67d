"""A name, a path or a hub id goes in; an ImageCorpus comes out: uint8 pixels and labels in memory."""

import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from capstext import hub
from capstext.caches import fingerprint
from capstext.data import array_folders
from capstext.data.array_files import LabelledImages
from capstext.data.catalog import Hub, known_dataset
from capstext.data.decoded_images import Decoded, decoded_splits, kept, table_of_images
from capstext.data.image_catalog import IMAGE_DATASETS, KnownImages, known_images
from capstext.data.image_corpora import (
    ImageCorpus,
    ImageSplit,
    in_classes,
    in_shape,
    one_hot,
    require_two_classes,
    with_cut,
)
from capstext.data.image_files import Shape
from capstext.data.image_folders import holds_pictures, picture_folder
from capstext.data.sources import HUB_ID, Location, is_path, local_folder, split_name
from capstext.errors import CapstextError, UsageError, did_you_mean

__all__ = ["ImageCorpus", "ImageSplit", "Shape", "holds_images", "load_images", "locate_images", "with_cut"]

SEED = 0  # of the splits and images that we make ourselves


@dataclass(frozen=True, kw_only=True)
class _Found:
    splits: dict[str, LabelledImages]
    classes: tuple[str, ...]
    origin: str
    notes: tuple[str, ...] = ()


def load_images(
    name: str | Path,
    *,
    classes: Sequence[str] | None = None,
    shape: Shape | None = None,
    skip_bad: bool = False,
    for_training: bool = True,
) -> ImageCorpus:
    """Images by known name, path or hub id; with a model's `classes` and `shape` they are fitted to it."""
    known = known_images(str(name))
    corpus = _from_catalog(known) if known else _from_elsewhere(str(name), shape, skip_bad)
    if shape is not None:
        corpus = in_shape(corpus, shape)
    if classes is not None:
        return in_classes(corpus, classes)
    if for_training:
        require_two_classes(corpus)
    return corpus


def locate_images(known: KnownImages) -> Location | None:
    """Where a known set would be taken from: a package, a folder under CAPSTEXT_DATA, or the hub."""
    if known.made_from:
        return locate_images(IMAGE_DATASETS[known.made_from])
    if known.package:
        return Location("package", known.package)
    if folder := local_folder(known.name):
        return Location("folder", str(folder))
    return Location("hub", known.hub.id) if known.hub else None


def holds_images(name: str | Path) -> bool:
    """Whether a name or a path stands for images, so far as can be told without reading them."""
    path = Path(name).expanduser()
    if known_images(str(name)):
        return True
    if path.is_dir():
        tables = sorted(path.rglob("*.parquet"))
        return (
            table_of_images(tables[0]) if tables else bool(array_folders.kind(path)) or holds_pictures(path)
        )
    return path.is_file() and path.suffix == ".parquet" and table_of_images(path)


def _from_catalog(known: KnownImages) -> ImageCorpus:
    if known.package:
        return _digits(known)
    if known.made_from:
        return _made(known, _from_catalog(IMAGE_DATASETS[known.made_from]))
    location = locate_images(known)
    if location is None:
        raise CapstextError(
            f"{known.name} is not on the hub: put {known.files} into a folder {known.name}/, "
            "and set CAPSTEXT_DATA to the folder that holds it"
        )
    if location.kind == "folder":
        found = _from_folder(Path(location.where), known=known)
    elif known.hub:
        found = _from_hub(known.hub)
    short = tuple(
        f"{split} has {len(images.codes):,} of {known.splits[split]:,} published images: "
        "say so with every figure"
        for split, images in found.splits.items()
        if len(images.codes) < known.splits.get(split, 0)
    )
    return _corpus(known.name, replace(found, notes=found.notes + short))


def _from_elsewhere(name: str, shape: Shape | None, skip_bad: bool) -> ImageCorpus:
    path = Path(name).expanduser()
    if path.is_dir():
        return _corpus(path.name, _from_folder(path, shape, skip_bad))
    if path.is_file() and path.suffix == ".parquet":
        return _corpus(path.stem, _from_tables(path, [path], f"file {path}"))
    if path.exists():
        raise CapstextError(f"{path}: give the folder of images, with one folder a class, not a file")
    if is_path(name):
        raise CapstextError(f"no such file: {name}")
    if known_dataset(name):
        raise UsageError(f"{name} is a set of texts, and images are wanted here; choose another data set")
    hub_id, _, revision = name.partition("@")
    if not HUB_ID.fullmatch(hub_id):
        raise UsageError(
            f"unknown set of images {name!r} (and no folder of that name); "
            f"{did_you_mean(name, IMAGE_DATASETS)}"
        )
    return _corpus(hub_id, _from_hub(Hub(id=hub_id, revision=revision or "main", splits={})))


def _from_folder(
    folder: Path, shape: Shape | None = None, skip_bad: bool = False, known: KnownImages | None = None
) -> _Found:
    origin = f"folder {folder}"
    if tables := sorted(folder.rglob("*.parquet")):
        return _from_tables(folder, tables, origin)
    if kind := array_folders.kind(folder):
        splits = array_folders.READERS[kind](folder)
        classes = known.classes if known else IMAGE_DATASETS[kind].classes if kind in IMAGE_DATASETS else None
        return _Found(splits=splits, classes=classes or _numbered(splits), origin=origin)
    pictures = picture_folder(folder, shape=shape, skip_bad=skip_bad)
    return _Found(splits=pictures.splits, classes=pictures.classes, origin=origin, notes=pictures.notes)


def _from_tables(source: Path, tables: list[Path], origin: str) -> _Found:
    """Parquet files with a column of images; decoded before, they do not even import `datasets`."""

    def decode() -> Decoded:
        import datasets

        if not sys.stderr.isatty():
            datasets.disable_progress_bars()
        if source.is_dir():
            loaded = hub.load_folder(source)
        else:
            with hub.errors_in_one_line(source):
                loaded = {"train": datasets.Dataset.from_parquet(str(source))}
        return decoded_splits({split_name(split): rows for split, rows in loaded.items()}, origin=origin)

    cards = [card] if (card := source / "README.md").is_file() else []
    decoded = kept(fingerprint(*tables, *cards), decode)
    return _Found(splits=decoded.splits, classes=decoded.classes, origin=origin)


def _from_hub(repository: Hub) -> _Found:
    origin = f"hub {repository.id}@{repository.revision}"

    def decode() -> Decoded:
        loaded = hub.load_dataset(repository.id, repository.revision)
        if ours := repository.splits:
            loaded = {split: loaded[theirs] for split, theirs in ours.items() if theirs in loaded}
        return decoded_splits({split_name(split): rows for split, rows in loaded.items()}, origin=origin)

    # A branch moves on; a commit never changes.
    pinned = re.fullmatch("[0-9a-f]{40}", repository.revision)
    decoded = kept(hashlib.sha256(origin.encode()).hexdigest()[:20], decode) if pinned else decode()
    classes = tuple(repository.renamed.get(name, name) for name in decoded.classes)
    return _Found(splits=decoded.splits, classes=classes, origin=origin)


def _digits(known: KnownImages) -> ImageCorpus:
    """The digits that scikit-learn carries: 8x8, 17 shades of grey."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = np.rint(found.images * (255 / 16)).astype(np.uint8)[..., None]
    images = ImageSplit(pixels, one_hot(found.target.astype(np.int64), len(known.classes)))
    origin = f"package {known.package} {version(known.package or '')}"
    corpus = ImageCorpus(known.name, origin, known.classes, {"train": images})
    return with_cut(corpus, "test", share=0.2, seed=SEED)


def _made(known: KnownImages, digits: ImageCorpus) -> ImageCorpus:
    from capstext.data.multi_mnist import MultiMnist, anywhere, transformed

    # Each split has a seed of its own, so that no shift repeats from one to the next.
    seeds = {split: SEED + number for number, split in enumerate(digits.splits)}
    if known.multi_label:
        splits = {
            split: MultiMnist(digits=images, seed=seeds[split]).first(len(images))
            for split, images in digits.splits.items()
        }
    else:
        splits = {
            split: anywhere(images, size=known.height, seed=seeds[split])
            for split, images in digits.splits.items()
        }
        splits["test_affine"] = transformed(digits.split("test"), size=known.height, seed=SEED)
    return ImageCorpus(
        name=known.name,
        origin=f"{digits.origin}; made from it, seed {SEED}",
        classes=digits.classes,
        splits=splits,
        multi_label=known.multi_label,
        notes=digits.notes,
    )


def _corpus(name: str, found: _Found) -> ImageCorpus:
    """Splits in their order, of one shape, labels within the classes."""
    order = sorted(found.splits, key=lambda split: (not split.startswith("train"), split != "validation"))
    first = found.splits[order[0]].pixels.shape[1:]
    splits = {}
    for split in order:
        pixels, codes = found.splits[split]
        if not len(codes):
            raise CapstextError(f"{found.origin}: split {split} has no images")
        if pixels.shape[1:] != first:
            raise CapstextError(
                f"{found.origin}: images of {Shape(*pixels.shape[1:])} in {split}, of {Shape(*first)} in "
                f"{order[0]}; all must be alike"
            )
        if not 0 <= codes.min() <= codes.max() < len(found.classes):
            raise CapstextError(
                f"{found.origin}: split {split} has class numbers {codes.min()} to {codes.max()}, "
                f"but there are {len(found.classes)} classes, counted from 0"
            )
        splits[split] = ImageSplit(pixels, one_hot(codes, len(found.classes)))
    return ImageCorpus(name, found.origin, found.classes, splits, notes=found.notes)


def _numbered(splits: dict[str, LabelledImages]) -> tuple[str, ...]:
    most = max((int(images.codes.max(initial=0)) for images in splits.values()), default=0)
    return tuple(map(str, range(most + 1)))
