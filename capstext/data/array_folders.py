"""Folders of the files that hold whole sets: which kind they are, and which file is which split."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from capstext.data.array_files import LabelledImages, halved, read_affnist, read_idx_images, read_norb
from capstext.errors import CapstextError

Kind = Literal["idx", "smallnorb", "affnist"]

_IDX = re.compile(r"(train|t10k|test|validation)-(images|labels)[.-]idx\d-ubyte(\.gz)?")
_NORB = re.compile(r".*-(training|testing)-(dat|cat|info)\.mat(\.gz)?")
_AFFNIST = re.compile(r"(training_and_validation|training|validation|test)(\.mat|_batches)")
_SPLITS = {
    **dict.fromkeys(("train", "training", "training_and_validation"), "train"),
    **dict.fromkeys(("t10k", "test", "testing"), "test"),
}


def kind(folder: Path) -> Kind | None:
    """Which format the files of a folder are in, by their names."""
    names = [path.name for path in folder.iterdir()]
    patterns: dict[Kind, re.Pattern[str]] = {"idx": _IDX, "smallnorb": _NORB, "affnist": _AFFNIST}
    return next((kind for kind, pattern in patterns.items() if any(map(pattern.fullmatch, names))), None)


def _idx_folder(folder: Path) -> dict[str, LabelledImages]:
    found = _by_split(folder, _IDX)
    return {
        split: read_idx_images(*(_wanted(folder, split, parts, part) for part in ("images", "labels")))
        for split, parts in found.items()
    }


def _norb_folder(folder: Path) -> dict[str, LabelledImages]:
    """At half the size, as Hinton et al. 2018 use them."""
    splits = {}
    for split, parts in _by_split(folder, _NORB).items():
        pairs, categories = (_wanted(folder, split, parts, part) for part in ("dat", "cat"))
        norb = read_norb(pairs, categories, parts.get("info"))
        splits[split] = LabelledImages(halved(norb.pixels), norb.codes)
    return splits


def _affnist_folder(folder: Path) -> dict[str, LabelledImages]:
    """One file a split, or its batches in the order of their numbers."""
    splits = {}
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        match = _AFFNIST.fullmatch(path.name)
        split = _SPLITS.get(match[1], match[1]) if match else ""
        if not match or split in splits:
            continue
        batches = sorted(path.glob("*.mat"), key=lambda file: (len(file.name), file.name))
        files = batches if path.is_dir() else [path]
        if not files:
            raise CapstextError(f"{path}: no .mat files in this folder")
        parts = [read_affnist(file) for file in files]
        splits[split] = LabelledImages(
            np.concatenate([part.pixels for part in parts]), np.concatenate([part.codes for part in parts])
        )
    return splits


READERS: Mapping[Kind, Callable[[Path], dict[str, LabelledImages]]] = {
    "idx": _idx_folder,
    "smallnorb": _norb_folder,
    "affnist": _affnist_folder,
}


def _by_split(folder: Path, pattern: re.Pattern[str]) -> dict[str, dict[str, Path]]:
    """Split -> part -> file; where a file is there plain and zipped, the plain one."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir(), reverse=True):
        if match := pattern.fullmatch(path.name):
            found.setdefault(_SPLITS.get(match[1], match[1]), {})[match[2]] = path
    return found


def _wanted(folder: Path, split: str, parts: dict[str, Path], part: str) -> Path:
    if part not in parts:
        there = ", ".join(path.name for path in parts.values())
        raise CapstextError(f"{folder}: no file of {part} for split {split}; found: {there}")
    return parts[part]
