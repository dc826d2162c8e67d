"""A folder of PNG and JPEG files, one folder a class, or one a split with such folders inside."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capstext.data.array_files import LabelledImages
from capstext.data.image_files import Conversions, Shape, fitted, images_in, read_pixels
from capstext.data.sources import SPLIT_NAMES
from capstext.errors import CapstextError


def holds_pictures(folder: Path) -> bool:
    """Whether most files of a folder are images: a picture among texts makes no set of images."""
    images, others = images_in(folder)
    return len(images) > others


class Pictures(NamedTuple):
    """What a folder holds."""

    splits: dict[str, LabelledImages]
    classes: tuple[str, ...]
    notes: tuple[str, ...]


def picture_folder(folder: Path, *, shape: Shape | None, skip_bad: bool) -> Pictures:
    """All images of a folder, made into `shape`, or of one size without; bad ones are named."""
    folders = _folders(folder)
    if folders and all(inside.name.casefold() in SPLIT_NAMES for inside in folders):
        parts = {SPLIT_NAMES[inside.name.casefold()]: inside for inside in folders}
    else:
        parts = {"train": folder}
    classes = tuple(sorted({inside.name for part in parts.values() for inside in _classes(part)}))
    number = {name: code for code, name in enumerate(classes)}
    files: list[tuple[str, int, Path]] = []
    ignored = 0
    for split, part in parts.items():
        paths, others = images_in(part)
        ignored += others
        if loose := [path for path in paths if path.parent == part]:
            raise CapstextError(f"{loose[0]}: in no class; put each image into a folder named like its class")
        files += [(split, number[path.relative_to(part).parts[0]], path) for path in paths]
    if not files:
        raise CapstextError(
            f"{folder}: no images: neither PNG or JPEG in a folder a class, nor a known format"
        )
    conversions, faults = Conversions(), []
    images: dict[Path, NDArray[np.uint8]] = {}
    for _, _, path in files:
        try:
            images[path] = _read(path, shape, conversions, next(iter(images.items()), None))
        except CapstextError as error:
            if not skip_bad:
                raise
            faults.append(str(error))
    files = [file for file in files if file[2] in images]
    if not files:
        raise CapstextError(f"{folder}: no image can be read; {faults[0]}")
    pixels = _one_array(list(images.values()), conversions)
    names = np.array([split for split, _, _ in files])
    codes = np.array([code for _, code, _ in files], dtype=np.int64)
    splits = {split: LabelledImages(pixels[names == split], codes[names == split]) for split in parts}
    counts = {"file ignored (no PNG or JPEG image)": ignored, "bad image skipped": len(faults)}
    told = (f"{count:,} × {what}" for what, count in counts.items() if count)
    return Pictures(splits, classes, (*conversions.notes(), *told, *faults))


def _read(
    path: Path,
    shape: Shape | None,
    conversions: Conversions,
    first: tuple[Path, NDArray[np.uint8]] | None,
) -> NDArray[np.uint8]:
    image = read_pixels(path)
    if shape is not None:
        return fitted(image[None], shape, place=str(path), conversions=conversions)[0]
    if first and image.shape[:2] != first[1].shape[:2]:
        raise CapstextError(
            f"{path} is {image.shape[0]}x{image.shape[1]} pixels, {first[0]} is "
            f"{first[1].shape[0]}x{first[1].shape[1]}; scale the images to one size"
        )
    return image


def _one_array(images: list[NDArray[np.uint8]], conversions: Conversions) -> NDArray[np.uint8]:
    if len({image.shape[2] for image in images}) > 1:  # some grey, some in colour
        colour = Shape(images[0].shape[0], images[0].shape[1], 3)
        images = [fitted(i[None], colour, place="", conversions=conversions)[0] for i in images]
    return np.stack(images)


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _classes(folder: Path) -> list[Path]:
    return [inside for inside in _folders(folder) if images_in(inside)[0]]
