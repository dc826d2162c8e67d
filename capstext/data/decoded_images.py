"""Images in a column of encoded files, as the hub keeps them: decoded once, then kept as one array file."""

import io
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capstext.caches import cache_folder
from capstext.data.array_files import LabelledImages
from capstext.data.image_files import decode_image
from capstext.errors import CapstextError
from capstext.files import write_whole

if TYPE_CHECKING:
    from datasets import Dataset


class Decoded(NamedTuple):
    """Splits, and the names of the classes that their codes count."""

    splits: dict[str, LabelledImages]
    classes: tuple[str, ...]


def kept(key: str, make: Callable[[], Decoded]) -> Decoded:
    """What was made for that key before, or is made now and kept; a broken file is made anew."""
    path = cache_folder() / "images" / f"{key}.npz"
    with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return _read(path)
    decoded = make()
    with suppress(OSError, CapstextError):  # a full or read-only disk costs time next time, no more
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda temporary: _write(temporary, decoded))
    return decoded


def decoded_splits(loaded: "Mapping[str, Dataset]", *, origin: str) -> Decoded:
    """The images and classes of a Hugging Face data set; images without a label are left out."""
    first = next(iter(loaded.values()))
    image, label = _columns(first.features, origin)
    classes = _class_names(loaded, label)
    number: dict[str | None, int] = {name: code for code, name in enumerate(classes)}
    splits = {}
    for split, rows in loaded.items():
        place = f"{origin}, split {split}"
        rows = rows.flatten_indices() if rows._indices is not None else rows
        codes = np.array([number.get(name, -1) for name in _names(rows, label)], dtype=np.int64)
        labelled = codes >= 0
        if labelled.any():
            pixels = _pixels(rows.data.column(image), labelled, place)
            splits[split] = LabelledImages(pixels, codes[labelled])
    if not splits:
        raise CapstextError(f"{origin}: no images with labels")
    return Decoded(splits, classes)


def table_of_images(path: Path) -> bool:
    """Whether a column of the table holds encoded images."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return False  # whoever reads it says what is wrong
    return any(
        pa.types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0 for field in schema
    )


def _columns(features: Any, origin: str) -> tuple[str, str]:
    """The first column of images, and the column of class labels or one that is called label."""
    import datasets

    images = [name for name, kind in features.items() if isinstance(kind, datasets.Image)]
    labels = [name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
    labels += [
        name for name in ("label", "labels", "class") if isinstance(features.get(name), datasets.Value)
    ]
    if not images or not labels:
        lacking = "images" if not images else "labels"
        raise CapstextError(f"{origin}: no column of {lacking}; columns found: {', '.join(features)}")
    return images[0], labels[0]


def _names(rows: "Dataset", label: str) -> list[str | None]:
    """Each row's label by name; None where there is none (-1 in a column of class labels)."""
    import datasets

    values = rows.data.column(label).to_pylist()
    if isinstance(feature := rows.features[label], datasets.ClassLabel):
        return [None if value is None or value < 0 else feature.names[value] for value in values]
    return [None if value is None else str(value) for value in values]


def _class_names(loaded: "Mapping[str, Dataset]", label: str) -> tuple[str, ...]:
    """As published, or sorted; numbers as numbers."""
    import datasets

    if isinstance(feature := next(iter(loaded.values())).features[label], datasets.ClassLabel):
        return tuple(feature.names)
    used = {name for rows in loaded.values() for name in _names(rows, label) if name is not None}
    return tuple(sorted(used, key=int if all(name.isdecimal() for name in used) else None))


def _pixels(column: Any, wanted: NDArray[np.bool_], place: str) -> NDArray[np.uint8]:
    """Decode the wanted rows; the first one gives the shape that all must have."""
    pixels: NDArray[np.uint8] | None = None
    filled = 0
    for row, (cell, want) in enumerate(zip(_cells(column), wanted, strict=True), start=1):
        if not want:
            continue
        image = decode_image(_opened(cell, f"{place}, row {row}"), place=f"{place}, row {row}")
        if pixels is None:
            pixels = np.empty((int(wanted.sum()), *image.shape), dtype=np.uint8)
        if image.shape != pixels.shape[1:]:
            raise CapstextError(
                f"{place}, row {row}: an image of {image.shape}, the first is {pixels.shape[1:]} "
                "(height, width, channels): all must be of one size and mode"
            )
        pixels[filled] = image
        filled += 1
    assert pixels is not None  # the caller has seen labels
    return pixels


def _cells(column: Any) -> Any:
    for chunk in column.chunks:
        yield from chunk.to_pylist()


def _opened(cell: dict[str, Any] | None, place: str) -> io.BytesIO:
    if cell and cell.get("bytes") is not None:
        return io.BytesIO(cell["bytes"])
    path = cell and cell.get("path")
    if path and Path(path).is_file():
        return io.BytesIO(Path(path).read_bytes())
    raise CapstextError(f"{place}: no image")


def _read(path: Path) -> Decoded:
    with np.load(path, allow_pickle=False) as arrays:
        splits = {
            str(name): LabelledImages(arrays[f"pixels {name}"], arrays[f"codes {name}"])
            for name in arrays["splits"]
        }
        return Decoded(splits, tuple(map(str, arrays["classes"])))


def _write(path: Path, decoded: Decoded) -> None:
    arrays: dict[str, Any] = {"splits": np.array(list(decoded.splits)), "classes": np.array(decoded.classes)}
    for name, images in decoded.splits.items():
        arrays |= {f"pixels {name}": images.pixels, f"codes {name}": images.codes}
    with open(path, "wb") as file:
        np.savez(file, **arrays)
