"""Files that hold a whole set of images: idx (MNIST), NORB's binary matrices, affNIST's MATLAB files."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capstext.errors import CapstextError

_GZIP = b"\x1f\x8b"
_IDX_BYTES = 0x08
_NORB_TYPES = {0x1E3D4C51: "<f4", 0x1E3D4C53: "<f8", 0x1E3D4C54: "<i4", 0x1E3D4C55: "u1", 0x1E3D4C56: "<i2"}
_MOST_DIMENSIONS = 8


class LabelledImages(NamedTuple):
    """All images of one file, or of files that belong together."""

    pixels: NDArray[np.uint8]  # [N, H, W, C]
    codes: NDArray[np.int64]  # [N]


class Norb(NamedTuple):
    """Stereo pairs of toys; `info` has instance, elevation, azimuth and lighting."""

    pixels: NDArray[np.uint8]  # [N, H, W, 2]
    codes: NDArray[np.int64]  # [N]
    info: NDArray[np.int64] | None  # [N, 4]


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of unsigned bytes, big-endian header, gzip or plain. LeCun's idx format."""
    data = _contents(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _IDX_BYTES or not 1 <= data[3] <= _MOST_DIMENSIONS:
        raise CapstextError(f"{path}: no idx file of bytes: it begins with {data[:4].hex() or 'nothing'}")
    sizes = _sizes(path, data, offset=4, count=data[3], order=">")
    return _values(path, data, offset=4 + 4 * data[3], kind="u1", sizes=sizes)


def read_idx_images(images: Path, labels: Path) -> LabelledImages:
    """Grey images and their class numbers, from a pair of idx files."""
    pixels, codes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3:
        raise CapstextError(f"{images}: {pixels.ndim} dimensions; images have 3: number, rows and columns")
    if codes.ndim != 1:
        raise CapstextError(f"{labels}: {codes.ndim} dimensions; labels have 1")
    _require_same(images, len(pixels), labels, len(codes))
    return LabelledImages(pixels[..., None].copy(), codes.astype(np.int64))


def read_norb_matrix(path: Path) -> NDArray[Any]:
    """One matrix of NORB's own format: magic number, dimensions, at least three sizes, values."""
    data = _contents(path)
    if len(data) < 8:
        raise CapstextError(f"{path}: cut short: {len(data)} bytes, no header")
    magic, dimensions = struct.unpack("<Ii", data[:8])
    if magic not in _NORB_TYPES:
        raise CapstextError(f"{path}: no NORB matrix: unknown magic number 0x{magic:08X}")
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise CapstextError(f"{path}: no NORB matrix: {dimensions} dimensions")
    written = max(dimensions, 3)
    sizes = _sizes(path, data, offset=8, count=written, order="<")[:dimensions]
    return _values(path, data, offset=8 + 4 * written, kind=_NORB_TYPES[magic], sizes=sizes)


def read_norb(pairs: Path, categories: Path, info: Path | None = None) -> Norb:
    """The files -dat, -cat and -info of one split. LeCun et al. 2004."""
    pixels, codes = read_norb_matrix(pairs), read_norb_matrix(categories)
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1] != 2:
        raise CapstextError(f"{pairs}: holds {pixels.dtype} {pixels.shape}, not pairs of images of bytes")
    if codes.dtype.kind != "i" or codes.ndim != 1:
        raise CapstextError(f"{categories}: holds {codes.dtype} {codes.shape}, not a row of class numbers")
    _require_same(pairs, len(pixels), categories, len(codes))
    details = None
    if info is not None:
        found = read_norb_matrix(info)
        if found.dtype.kind != "i" or found.ndim != 2 or found.shape[1] != 4:
            raise CapstextError(f"{info}: holds {found.dtype} {found.shape}, not four numbers an image")
        _require_same(pairs, len(pixels), info, len(found))
        details = found.astype(np.int64)
    return Norb(pixels.transpose(0, 2, 3, 1), codes.astype(np.int64), details)


def halved(pixels: NDArray[np.uint8], *, block: int = 1000) -> NDArray[np.uint8]:
    """Images at half their size, each pixel the mean of four. Hinton et al. 2018, section 5, on smallNORB."""
    count, height, width, channels = pixels.shape
    small = np.empty((count, height // 2, width // 2, channels), dtype=np.uint8)
    for start in range(0, count, block):
        part = pixels[start : start + block, : height // 2 * 2, : width // 2 * 2].astype(np.uint16)
        total = part[:, ::2, ::2] + part[:, 1::2, ::2] + part[:, ::2, 1::2] + part[:, 1::2, 1::2]
        small[start : start + block] = (total + 2) // 4
    return small


def read_affnist(path: Path, *, height: int = 40, width: int = 40) -> LabelledImages:
    """The struct affNISTdata of a MATLAB 5 file: images as columns, and label_int. Tieleman 2013."""
    from scipy.io import loadmat

    try:
        found = loadmat(str(path), variable_names=["affNISTdata"], appendmat=False).get("affNISTdata")
    except FileNotFoundError:
        raise CapstextError(f"no such file: {path}") from None
    except Exception as error:  # on broken files scipy raises whatever its parser stumbles over
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise CapstextError(f"{path}: no MATLAB 5 file, or a broken one: {first}") from error
    names = found.dtype.names or () if isinstance(found, np.ndarray) and found.size == 1 else ()
    if found is None or not {"image", "label_int"} <= set(names):
        raise CapstextError(f"{path}: no affNIST file: it lacks affNISTdata with image and label_int")
    columns, codes = (np.asarray(found[name].item()) for name in ("image", "label_int"))
    if columns.dtype.kind not in "uif" or codes.dtype.kind not in "uif":
        raise CapstextError(
            f"{path}: image and label_int must hold numbers, not {columns.dtype} and {codes.dtype}"
        )
    if columns.ndim != 2 or len(columns) != height * width:
        raise CapstextError(f"{path}: image is {columns.shape}, not [{height * width}, number of images]")
    if columns.size and not 0 <= columns.min() <= columns.max() <= 255:
        raise CapstextError(f"{path}: pixels of {columns.min()} to {columns.max()}, not 0 to 255")
    _require_same(path, columns.shape[1], f"its label_int, {path}", codes.size)
    pixels = np.ascontiguousarray(columns.T).astype(np.uint8, copy=False)
    return LabelledImages(pixels.reshape(-1, height, width, 1), codes.reshape(-1).astype(np.int64))


def _contents(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except FileNotFoundError:
        raise CapstextError(f"no such file: {path}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CapstextError(f"{path}: broken gzip file, or cut short") from None
    except OSError as error:
        raise CapstextError(f"{path}: cannot be read: {error.strerror}") from error


def _sizes(path: Path, data: bytes, *, offset: int, count: int, order: str) -> tuple[int, ...]:
    if len(data) < offset + 4 * count:
        raise CapstextError(f"{path}: cut short in its header")
    return struct.unpack_from(f"{order}{count}I", data, offset)


def _values(path: Path, data: bytes, *, offset: int, kind: str, sizes: tuple[int, ...]) -> NDArray[Any]:
    wanted, found = math.prod(sizes) * np.dtype(kind).itemsize, len(data) - offset
    if found != wanted:
        fault = "cut short" if found < wanted else "too long"
        raise CapstextError(f"{path}: {fault}: {found:,} bytes of values, its header says {wanted:,}")
    return np.frombuffer(data, dtype=kind, offset=offset).reshape(sizes)


def _require_same(first: object, count: int, second: object, other: int) -> None:
    if count != other:
        raise CapstextError(f"{first} has {count:,} images, but {second} {other:,} rows")
