"""A name, a path or a hub id goes in; a Corpus comes out: texts and class numbers, kept in Arrow files."""

import os
import random
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from capstext import hub
from capstext.data.catalog import DATASETS, Hub, KnownDataset, Package, known_dataset
from capstext.data.columns import GUESSING_ROWS, guess_columns, require_columns, require_label
from capstext.data.corpora import Corpus, Found, Options, numbered_corpus, require_two_classes
from capstext.data.image_catalog import IMAGE_DATASETS, known_images
from capstext.data.labelled_files import from_files
from capstext.data.labels import LabelledTexts, labelled
from capstext.data.reading import ErrorPolicy, kind_of
from capstext.errors import CapstextError, UsageError, did_you_mean

__all__ = ["Corpus", "Location", "load", "locate"]

_SPLIT_ALIASES = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing"),
}
SPLIT_NAMES = {alias: split for split, aliases in _SPLIT_ALIASES.items() for alias in aliases}
_FILE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt", ".gz", ".parquet")
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


@dataclass(frozen=True)
class Location:
    """Where a known data set would be taken from."""

    kind: Literal["folder", "package", "hub"]
    where: str


def load(
    name: str | Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    skip_bad: bool = False,
    errors: ErrorPolicy = "strict",
    classes: Sequence[str] | None = None,
    for_training: bool = True,
) -> Corpus:
    """A corpus by known name, path or hub id; with a model's `classes`, labels get the model's numbers."""
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    options = Options(text_column=text_column, label_column=label_column, skip_bad=skip_bad, errors=errors)
    known = known_dataset(str(name))
    found = _from_catalog(known, options) if known else _from_elsewhere(str(name), options)
    corpus = numbered_corpus(found, known, classes, skip_bad=skip_bad)
    if classes is None and for_training:
        require_two_classes(corpus)
    return corpus


def locate(known: KnownDataset) -> Location | None:
    """A folder under CAPSTEXT_DATA, an installed data package, or the hub; None if nobody has it."""
    if folder := local_folder(known.name):
        return Location("folder", str(folder))
    if known.package and (file := hub.packaged(known.package.module, known.package.file)):
        return Location("package", str(file))
    return Location("hub", known.hub.id) if known.hub else None


def local_folder(name: str) -> Path | None:
    """The folder of a known data set under CAPSTEXT_DATA, if there is one."""
    home = os.environ.get("CAPSTEXT_DATA")
    if not home:
        return None
    if not Path(home).is_dir():
        raise CapstextError(f"CAPSTEXT_DATA names {home}, which is no folder")
    return folder if (folder := Path(home, name)).is_dir() else None


def is_path(name: str) -> bool:
    """Whether a name that is no file looks like the path of one, rather than a known name or a hub id."""
    return (
        name.endswith(_FILE_SUFFIXES)
        or name.startswith((".", "/", "~"))
        or name.count("/") > 1
        or (len(Path(name).parts) > 1 and Path(name).expanduser().parent.is_dir())
    )


def _from_catalog(known: KnownDataset, options: Options) -> Found:
    location = locate(known)
    if location is None:
        raise CapstextError(
            f"{known.name} is not on the hub: set CAPSTEXT_DATA to a folder that holds {known.name}/"
        )
    if location.kind == "folder":
        found = _from_folder(Path(location.where), options.or_columns_of(known))
    elif location.kind == "package" and known.package:
        found = _from_package(known.package, Path(location.where), options.or_columns_of(known.package))
    elif known.hub:
        found = _from_hub(known.hub, options.or_columns_of(known.hub))
    if known.protocol == "folds":
        return found
    short = tuple(
        f"{split} has {len(rows.texts):,} of {known.splits[split]:,} published rows: say so with every figure"
        for split, rows in found.splits.items()
        if len(rows.texts) < known.splits.get(split, 0)
    )
    return replace(found, notes=found.notes + short)


def _from_elsewhere(name: str, options: Options) -> Found:
    path = Path(name).expanduser()
    if name and path.is_dir():
        return _from_folder(path, options)
    if name and path.exists():
        return _from_file(path, options)
    if is_path(name):
        raise CapstextError(f"no such file: {name}")
    if known_images(name):
        raise UsageError(f"{name} is a set of images, and texts are wanted here; choose another data set")
    hub_id, _, revision = name.partition("@")
    if not HUB_ID.fullmatch(hub_id):
        choices = [*DATASETS, *IMAGE_DATASETS]
        raise UsageError(
            f"unknown data set {name!r} (and no file of that name); {did_you_mean(name, choices)}"
        )
    return _from_hub(Hub(id=hub_id, revision=revision or "main", splits={}), options)


def _from_folder(folder: Path, options: Options) -> Found:
    import datasets

    origin = f"folder {folder}"
    if (folder / "dataset_dict.json").exists() or (folder / "state.json").exists():
        return _from_datasets(folder.name, datasets.load_from_disk(str(folder)), origin, options)
    if next(folder.rglob("*.parquet"), None):
        return _from_datasets(folder.name, hub.load_folder(folder), origin, options)
    if tables := [path for path in sorted(folder.iterdir()) if kind_of(path) not in ("text", "folder")]:
        splits = {split_name(path.name.split(".")[0]): path for path in tables}
        if len(splits) < len(tables) or (len(splits) > 1 and "train" not in splits):
            raise CapstextError(f"{folder}: which table is which split? name them train, validation and test")
        return from_files(folder.name, splits, origin, options)
    folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if folders and all(path.name in SPLIT_NAMES for path in folders):
        splits = {split_name(path.name): path for path in folders}
        return from_files(folder.name, splits, origin, options)
    return from_files(folder.name, {"train": folder}, origin, options)


def _from_file(path: Path, options: Options) -> Found:
    import datasets

    if path.suffix == ".parquet":
        with hub.errors_in_one_line(path):
            loaded = datasets.Dataset.from_parquet(str(path))
        return _from_datasets(path.name, loaded, f"file {path}", options)
    if kind_of(path) == "text":
        raise CapstextError(f"{path}: a text file has no labels; give .csv, .tsv, .jsonl or a folder a class")
    return from_files(path.name, {"train": path}, str(path), options)


def _from_package(package: Package, file: Path, options: Options) -> Found:
    import datasets

    loaded = datasets.Dataset.from_csv(str(file), keep_default_na=False, encoding_errors="replace")
    loaded = loaded.select(np.flatnonzero(np.array(loaded[package.column][:]) == package.value))
    parts = _fixed_cut(loaded[package.label_column][:], package)
    release = ""
    with suppress(PackageNotFoundError):
        release = f" {version(package.name)}"
    origin = (
        f"package {package.name}{release}: {len(loaded):,} training rows, "
        f"cut by us (stratified, seed {package.seed}): "
        + ", ".join(f"{split} {len(part):,}" for split, part in parts.items())
    )
    splits = {split: loaded.select(part) for split, part in parts.items()}
    note = f"the splits are cut from the {len(loaded):,} training rows: not the published test rows"
    found = _from_datasets(package.name, splits, origin, options, package.renamed)
    return replace(found, notes=(note,))


def _fixed_cut(labels: Sequence[object], package: Package) -> dict[str, list[int]]:
    """A share of every class for each split; the standard library's generator keeps its order."""
    generator = random.Random(package.seed)
    parts: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for name in dict.fromkeys(labels):
        rows = [row for row, label in enumerate(labels) if label == name]
        generator.shuffle(rows)
        test = round(package.test * len(rows))
        rest = test + round(package.validation * len(rows))
        parts["test"] += rows[:test]
        parts["validation"] += rows[test:rest]
        parts["train"] += rows[rest:]
    return {split: sorted(rows) for split, rows in parts.items()}


def _from_hub(repository: Hub, options: Options) -> Found:
    loaded = hub.load_dataset(repository.id, repository.revision)
    if ours := repository.splits:
        loaded = {split: loaded[theirs] for split, theirs in ours.items() if theirs in loaded}
    origin = f"hub {repository.id}@{repository.revision}"
    return _from_datasets(repository.id, loaded, origin, options, repository.renamed)


def _from_datasets(
    name: str, loaded: Any, origin: str, options: Options, renamed: Mapping[str, str] | None = None
) -> Found:
    import datasets

    if isinstance(loaded, datasets.Dataset):
        loaded = {"train": loaded}
    shown = next((rows for rows in loaded.values() if len(rows)), None)
    if shown is None:
        raise CapstextError(f"{origin}: no rows")
    simple = (datasets.Value, datasets.ClassLabel, datasets.List)
    shown = shown.select_columns([key for key, kind in shown.features.items() if isinstance(kind, simple)])
    columns = guess_columns(
        shown.take(min(GUESSING_ROWS, len(shown))).to_list(),
        file=origin,
        text_column=options.text_column,
        label_column=options.label_column,
    )
    text, label = columns.text, require_label(origin, columns)
    splits: dict[str, LabelledTexts] = {}
    notes: list[str] = []
    for split, rows in loaded.items():
        place = f"{origin}, split {split}"
        require_columns(place, (text, label), rows.column_names)
        texts = labelled(rows, text_column=text, label_column=label, file=place)
        if len(rows) and not texts.listed and not texts.lengths.any() and len(loaded) > 1:
            notes.append(f"split {split} has no labels and is left out")
        else:
            splits[split_name(split)] = texts.renamed(renamed or {})
    return Found(
        name=name, splits=splits, origin=origin, text_column=text, label_column=label, notes=tuple(notes)
    )


def split_name(name: str) -> str:
    return SPLIT_NAMES.get(name.casefold(), name)
