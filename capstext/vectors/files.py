"""Files of word vectors: the formats of GloVe, fastText and word2vec, and our own, which is mapped."""

import gzip
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
from numpy.typing import NDArray

from capstext.data.lines import opened
from capstext.errors import CapstextError
from capstext.files import sync_folder

Matrix = NDArray[np.float32]
Entry = tuple[str, Matrix]

LARGEST = 1e6  # numbers beyond it are no word's: their squares would overflow


@dataclass(frozen=True)
class Vectors:
    """One row of the matrix for each word."""

    words: Sequence[str]
    matrix: Matrix
    origin: str

    @property
    def dim(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """Row of each word; the first one where a word stands twice."""
        return {word: row for row, word in reversed(list(enumerate(self.words)))}

    def row(self, word: str) -> int | None:
        """Row of the word, or else of the word in lower case."""
        found = self.rows.get(word)
        return self.rows.get(word.lower()) if found is None else found

    def lookup(self, words: Sequence[str]) -> tuple[Matrix, NDArray[np.bool_]]:
        """A row for each word, zero where there is none, and which were found."""
        rows = [self.row(word) for word in words]
        found = np.array([row is not None for row in rows], dtype=bool)
        matrix = np.zeros((len(words), self.dim), dtype=np.float32)
        matrix[found] = self.matrix[[row for row in rows if row is not None]]
        return matrix, found


def store(folder: Path, entries: Iterable[Entry]) -> Vectors:
    """Write words and matrix into `folder`, whole or not at all, and map them."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        words, row = list[str](), np.empty(0, dtype=np.float32)
        with open(temporary / "matrix.npy", "wb") as file:
            _write_header(file, (0, 0))
            for word, row in entries:
                words.append(word)
                file.write(row.tobytes())
            file.seek(0)
            _write_header(file, (len(words), row.size))  # numpy leaves room for the numbers to grow
        (temporary / "words.txt").write_text("\n".join(words), encoding="utf-8", newline="\n")
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(temporary, folder)
        sync_folder(folder.parent)
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise CapstextError(
            f"{folder}: vectors cannot be cached there ({error.strerror}); point XDG_CACHE_HOME elsewhere"
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Vectors(words, np.load(folder / "matrix.npy", mmap_mode="r"), str(folder))


def stored_vectors(folder: Path) -> Vectors | None:
    """What `store` wrote, or None where it is missing or damaged."""
    try:
        matrix = np.load(folder / "matrix.npy", mmap_mode="r")
        words = (folder / "words.txt").read_bytes().decode().split("\n") if len(matrix) else []
    except (OSError, ValueError, EOFError):
        return None
    return Vectors(words, matrix, str(folder)) if len(words) == len(matrix) else None


def convert(path: Path, folder: Path) -> Vectors:
    """Vectors of a GloVe, fastText or word2vec file, gzipped or not, stored in `folder`."""
    read_entries = _binary if path.name.removesuffix(".gz").endswith(".bin") else _text
    with opened(path) as file:
        return store(folder, read_entries(file, path))


def _text(file: BinaryIO, path: Path) -> Iterator[Entry]:
    """GloVe and fastText: a word and its numbers in each line; fastText has a first line with both sizes."""
    first = file.readline()
    fields = first.split()
    has_header = len(fields) == 2 and all(field.isdigit() for field in fields)
    dim = int(fields[1]) if has_header else len(fields) - 1
    if dim < 1:
        raise CapstextError(f"{path}:1: expected a word and its numbers, found {_shown(first)}")
    for number, line in enumerate(chain([b"" if has_header else first], file), start=1):
        if line.strip():
            yield _text_entry(line, dim, f"{path}:{number}")


def _text_entry(line: bytes, dim: int, place: str) -> Entry:
    # Some GloVe words hold spaces, so the numbers are counted from the end.
    word, *numbers = line.rstrip(b" \t\r\n").rsplit(b" ", dim)
    if len(numbers) != dim or (b" " in word and _is_number(word.rpartition(b" ")[2])):
        found = len(line.split()) - 1
        raise CapstextError(f"{place}: expected {dim} numbers after the word, found {found}: {_shown(line)}")
    try:
        row = np.array(numbers, dtype=np.float32)
    except ValueError:
        raise CapstextError(f"{place}: not all of it are numbers: {_shown(line)}") from None
    return word.decode("utf-8", "replace"), _finite(row, place)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _binary(file: BinaryIO, path: Path) -> Iterator[Entry]:
    """word2vec: a line with both sizes, then each word, a space and its float32 numbers, line end or not."""
    first = file.readline(100)
    fields = first.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields) or int(fields[1]) < 1:
        raise CapstextError(f"{path}: not a word2vec binary file: it opens with {_shown(first)}")
    count, dim = map(int, fields)
    buffer, position, size = b"", 0, 4 * dim
    for number in range(1, count + 1):
        space = buffer.find(b" ", position)
        while space < 0 or len(buffer) < space + 1 + size:
            block = file.read(1 << 22)
            if not block or (space < 0 and len(buffer) - position > 1 << 20):
                raise CapstextError(f"{path}: entry {number} of {count} is cut short or damaged")
            buffer, position = buffer[position:] + block, 0
            space = buffer.find(b" ")
        word = buffer[position:space].lstrip(b"\n").decode("utf-8", "replace")
        position = space + 1 + size
        if "\n" in word:
            raise CapstextError(f"{path}: entry {number} of {count} is damaged: its word holds a line end")
        row = np.frombuffer(buffer, dtype="<f4", count=dim, offset=space + 1)
        yield word, _finite(row, f"{path}: entry {number}")


def _finite(row: Matrix, place: str) -> Matrix:
    if not (np.abs(row) < LARGEST).all():
        raise CapstextError(f"{place}: a number is not finite, or beyond {LARGEST:g}")
    return row


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))


def _write_header(file: IO[bytes], shape: tuple[int, int]) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
