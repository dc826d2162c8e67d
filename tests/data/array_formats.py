"""Writers of the formats that capstext/data/array_files.py reads, from their descriptions."""

import struct
from pathlib import Path

import numpy as np
from scipy.io import savemat

NORB_MAGIC = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54, "float32": 0x1E3D4C51, "float64": 0x1E3D4C53}


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def norb_bytes(array: np.ndarray) -> bytes:
    sizes = [*array.shape, 1, 1, 1][: max(3, array.ndim)]
    return (
        struct.pack(f"<Ii{len(sizes)}i", NORB_MAGIC[str(array.dtype)], array.ndim, *sizes) + array.tobytes()
    )


def write_affnist(path: Path, pixels: np.ndarray, codes: np.ndarray, **other: object) -> Path:
    """`pixels` are [N, 40, 40]; the file has an image a column, its rows one after the other."""
    fields = {
        "affine_tform": np.zeros((6, len(pixels))),
        "image": pixels.reshape(len(pixels), -1).T,
        "label_int": codes[None],
    }
    path.parent.mkdir(exist_ok=True)
    savemat(path, {"affNISTdata": fields | other}, do_compression=True)
    return path
