"""Rows from text files, tables, JSON lines, folders and stdin: streamed, faults named by file and line."""

import codecs
import csv
import gzip
import json
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn

from capstext.errors import CapstextError, UsageError

ErrorPolicy = Literal["strict", "replace"]
Kind = Literal["text", "csv", "tsv", "jsonl", "folder"]

MAX_CHARACTERS = 1_000_000
RECORD_LIMIT = 16_000_000  # bytes of one line of a table or of JSON, characters of one field
RECORD_LINES = 100_000  # lines of one quoted field: more of them are taken for an open quote
GUESSING_ROWS = 100
FAULTS_KEPT = 20
DOCUMENT_SUFFIXES = ("", ".txt", ".text")
TEXT_NAMES = (
    *("text", "sentence", "review", "content", "document", "question", "body", "comment"),
    *("message", "description", "tweet", "utterance", "query", "title"),
)
LABEL_NAMES = (
    *("label", "labels", "class", "classes", "category", "categories", "target", "topic", "topics"),
    *("label_text", "label_name", "sentiment", "intent", "coarse_label", "tag", "tags", "polarity", "y"),
)
_KINDS: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Row:
    id: str | int | float
    text: str
    fields: Mapping[str, Any]
    file: str
    line: int


@dataclass
class Tally:
    """What happened to the rows on their way in; the caller shows it at the end."""

    rows: int = 0
    empty: int = 0
    replaced: int = 0
    cut: int = 0
    skipped: int = 0
    ignored: int = 0
    faults: list[str] = field(default_factory=list)
    text_column: str | None = None

    def skip(self, fault: str) -> None:
        self.skipped += 1
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(fault)

    def notes(self) -> tuple[str, ...]:
        """The counts that are not zero, in words."""
        counts = {
            "empty text": self.empty,
            "character replaced": self.replaced,
            "text cut at the length bound": self.cut,
            "bad row skipped": self.skipped,
            "file ignored (not text)": self.ignored,
        }
        return tuple(f"{count:,} × {what}" for what, count in counts.items() if count)


@dataclass(frozen=True)
class Columns:
    """The columns of a table, and which of them hold the text and the labels."""

    found: tuple[str, ...]
    text: str
    label: str | None


def kind_of(path: str | Path) -> Kind:
    path = Path(path)
    if path.is_dir():
        return "folder"
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    return _KINDS.get(suffix.lower(), "text")


def read_rows(
    path: str | Path,
    *,
    text_column: str | None = None,
    errors: ErrorPolicy = "strict",
    skip_bad: bool = False,
    max_characters: int = MAX_CHARACTERS,
    tally: Tally | None = None,
) -> Iterator[Row]:
    """Every row of a file, a folder or stdin (`-`); a table's text column is guessed unless it is given."""
    tally = Tally() if tally is None else tally
    origin = _Origin(
        file="stdin" if str(path) == "-" else str(path),
        errors=errors,
        skip_bad=skip_bad,
        max_characters=max_characters,
        tally=tally,
    )
    kind = kind_of(path)
    if kind in ("text", "folder") and text_column is not None:
        raise UsageError(
            f"{origin.file}: a text file has no column {text_column!r}; give a .csv, .tsv or .jsonl file"
        )
    for row in (
        _documents(Path(path), origin) if kind == "folder" else _file_rows(path, kind, text_column, origin)
    ):
        tally.rows += 1
        tally.empty += not row.text.strip()
        yield row


def sniff(path: str | Path, *, text_column: str | None = None, label_column: str | None = None) -> Columns:
    """The columns of a table, judged by its first rows."""
    origin = _Origin(
        file=str(path), errors="replace", skip_bad=True, max_characters=MAX_CHARACTERS, tally=Tally()
    )
    with _opened(path, origin.file) as stream:
        records = (fields for _, fields in _records(stream, kind_of(path), origin) if fields is not None)
        return guess_columns(
            list(islice(records, GUESSING_ROWS)),
            file=origin.file,
            text_column=text_column,
            label_column=label_column,
        )


def guess_columns(
    rows: Sequence[Mapping[str, Any]],
    *,
    file: str,
    text_column: str | None = None,
    label_column: str | None = None,
) -> Columns:
    """Text: by name, else the column of the longest strings. Label: by name, else the only other column."""
    if not rows:
        raise CapstextError(f"{file}: no rows")
    found = tuple(dict.fromkeys(name for row in rows for name in row))
    for wanted in (text_column, label_column):
        if wanted is not None and wanted not in found:
            missing_column(file, wanted, found)
    label = label_column or _by_name((name for name in found if name != text_column), LABEL_NAMES)
    free = [name for name in found if name != label and name.casefold() != "id"]
    lengths = {
        name: sum(len(value) for row in rows if isinstance(value := row.get(name), str)) for name in free
    }
    text = text_column or _by_name(free, TEXT_NAMES) or max(free, key=lengths.__getitem__, default=None)
    if text is None or (text_column is None and not any(isinstance(row.get(text), str) for row in rows)):
        raise UsageError(
            f"{file}: no column holds text; columns found: {', '.join(found)}; name one with --text-column"
        )
    others = [name for name in free if name != text]
    if label is None and len(others) == 1:
        label = others[0]
    return Columns(found, text, label)


def missing_column(file: str, column: str, found: Iterable[str]) -> NoReturn:
    raise UsageError(f"{file}: no column {column!r}; columns found: {', '.join(found)}")


def documents_in(folder: Path) -> tuple[list[Path], int]:
    """The text files under a folder, sorted by relative path, and the number of other files."""
    documents, ignored = [], 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = Path(parent, name)
            plain = path.with_suffix("") if path.suffix == ".gz" else path
            if name.startswith(".") or plain.suffix.lower() not in DOCUMENT_SUFFIXES:
                ignored += 1
            else:
                documents.append(path)
    return sorted(documents, key=lambda path: path.relative_to(folder).as_posix()), ignored


@dataclass(frozen=True, kw_only=True)
class _Origin:
    """Where rows come from, and what to do about their faults."""

    file: str
    errors: ErrorPolicy
    skip_bad: bool
    max_characters: int
    tally: Tally

    @property
    def line_limit(self) -> int:
        return 4 * self.max_characters + 8  # UTF-8 takes at most four bytes a character; room for a BOM

    def bad(self, line: int, fault: str) -> None:
        message = f"{self.file}:{line}: {fault}"
        if not self.skip_bad:
            raise CapstextError(f"{message}; mend it or pass --skip-bad")
        self.tally.skip(message)

    def decode(self, data: bytes, line: int, *, whole: bool = True) -> str:
        try:
            text = data.decode() if whole else codecs.getincrementaldecoder("utf-8")().decode(data)
        except UnicodeDecodeError as fault:
            text = self._decode_invalid(data, line, fault.start)
        return self.clean(text)

    def _decode_invalid(self, data: bytes, line: int, at: int) -> str:
        try:
            return data.decode(errors="surrogatepass")
        except UnicodeDecodeError:
            if self.errors == "strict":
                line += data.count(b"\n", 0, at)
                before = data[data.rfind(b"\n", 0, at) + 1 : at]
                column = len(before.decode(errors="replace")) + 1
                raise CapstextError(
                    f"{self.file}:{line}: not UTF-8 (byte 0x{data[at]:02x} at column {column}); "
                    "convert the file or pass --errors replace"
                ) from None
        text = data.decode(errors="replace")
        self.tally.replaced += text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
        return text

    def clean(self, value: Any) -> Any:
        """Lone surrogates and NUL become U+FFFD, in strings and in lists of them."""
        if isinstance(value, str):
            value, count = _UNSTORABLE.subn("\ufffd", value)
            self.tally.replaced += count
        elif isinstance(value, list):
            value = [self.clean(item) for item in value]
        return value

    def bound(self, text: str) -> str:
        if len(text) <= self.max_characters:
            return text
        self.tally.cut += 1
        return text[: self.max_characters]


def _file_rows(path: str | Path, kind: Kind, text_column: str | None, origin: _Origin) -> Iterator[Row]:
    with _opened(path, origin.file) as stream:
        try:
            if kind == "text":
                for line, data, whole in _byte_lines(stream, origin.line_limit):
                    text = origin.bound(origin.decode(data, line, whole=whole))
                    yield Row(line, text, {}, origin.file, line)
            else:
                yield from _table_rows(_records(stream, kind, origin), text_column, origin)
        except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
            raise CapstextError(f"{origin.file}: damaged gzip file ({fault})") from None
        except OSError as fault:
            raise CapstextError(f"cannot read {origin.file}: {fault.strerror or fault}") from None


def _table_rows(
    records: Iterator[tuple[int, dict[str, Any] | None]], text_column: str | None, origin: _Origin
) -> Iterator[Row]:
    first = list(islice(records, GUESSING_ROWS))
    known = [fields for _, fields in first if fields is not None]
    if not known:
        return
    text_column = guess_columns(known, file=origin.file, text_column=text_column).text
    origin.tally.text_column = text_column
    for number, (line, fields) in enumerate(chain(first, records), start=1):
        if fields is None:
            continue
        value = fields.get(text_column, ())
        if isinstance(value, list | tuple | dict):
            what = (
                f"column {text_column!r} holds no text"
                if text_column in fields
                else f"no column {text_column!r}"
            )
            origin.bad(line, what)
            continue
        identity = fields.get(_by_name(fields, ("id",)) or "")
        yield Row(
            id=identity if isinstance(identity, str | int | float) and identity != "" else number,
            text=origin.bound("" if value is None else str(value)),
            fields=fields,
            file=origin.file,
            line=line,
        )


def _records(stream: BinaryIO, kind: Kind, origin: _Origin) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The records of a table with the line on which each begins; None stands for a skipped one."""
    lines = _whole_lines(stream, origin)
    return _json_records(lines, origin) if kind == "jsonl" else _csv_records(lines, kind, origin)


def _json_records(
    lines: Iterator[tuple[int, str | None]], origin: _Origin
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    for line, text in lines:
        if text is not None and not text.strip():
            continue
        fields = None
        if text is not None:
            try:
                fields = json.loads(text)
            except json.JSONDecodeError as fault:
                origin.bad(line, f"bad JSON ({fault.msg} at column {fault.colno})")
            except (ValueError, RecursionError) as fault:
                origin.bad(line, f"bad JSON ({fault})")
            else:
                if not isinstance(fields, dict):
                    origin.bad(line, f"not a JSON object but {type(fields).__name__}")
                    fields = None
        yield line, None if fields is None else {origin.clean(k): origin.clean(v) for k, v in fields.items()}


def _csv_records(
    lines: Iterator[tuple[int, str | None]], kind: Kind, origin: _Origin
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    records = _csv_fields(lines, "\t" if kind == "tsv" else ",", origin)
    line, header = next(records, (0, None))
    if header is None:
        return
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise CapstextError(f"{origin.file}:{line}: column {twice!r} stands twice in the header")
    for line, cells in records:
        if cells is not None and len(cells) != len(header):
            origin.bad(line, f"{len(cells)} fields where the header has {len(header)}")
            cells = None
        yield line, None if cells is None else dict(zip(header, cells, strict=True))


def _csv_fields(
    lines: Iterator[tuple[int, str | None]], delimiter: str, origin: _Origin
) -> Iterator[tuple[int, list[str] | None]]:
    csv.field_size_limit(RECORD_LIMIT)
    waiting: deque[tuple[int, str]] = deque()
    taken: list[tuple[int, str]] = []

    def feed() -> Iterator[str]:
        while (item := waiting.popleft() if waiting else next(lines, None)) is not None:
            line, text = item
            taken.append((line, text or ""))
            if text is None or len(taken) > RECORD_LINES:
                raise csv.Error("record too long")
            yield text + "\n"

    while True:
        try:
            for cells in csv.reader(feed(), delimiter=delimiter, strict=True):
                if cells:
                    yield taken[0][0], cells
                taken.clear()
            return
        except csv.Error as fault:
            # Only the line on which the bad record begins is given up: the ones behind it are read again.
            line = taken[0][0]
            if str(fault) != "record too long" or len(taken) > RECORD_LINES:
                origin.bad(line, _csv_fault(str(fault)))
            waiting.extendleft(reversed(taken[1:]))
            taken.clear()
            yield line, None


def _csv_fault(fault: str) -> str:
    if "unexpected end" in fault or "too long" in fault or "field limit" in fault:
        return "a quote is opened and never closed"
    return f"bad quoting ({fault})"


def _whole_lines(stream: BinaryIO, origin: _Origin) -> Iterator[tuple[int, str | None]]:
    for line, data, whole in _byte_lines(stream, RECORD_LIMIT):
        if not whole:
            origin.bad(line, f"a line of more than {RECORD_LIMIT:,} bytes")
        yield line, origin.decode(data, line) if whole else None


def _byte_lines(stream: BinaryIO, limit: int) -> Iterator[tuple[int, bytes, bool]]:
    """Lines without their ends; what passes the limit is read past, and the line is marked as not whole."""
    line = 0
    while data := stream.readline(limit):
        line += 1
        whole = True
        if len(data) == limit and not data.endswith(b"\n"):
            rest = stream.readline(limit)
            whole = rest in (b"", b"\n", b"\r\n")
            while rest and not rest.endswith(b"\n"):
                rest = stream.readline(limit)
        if line == 1 and not (data := data.removeprefix(codecs.BOM_UTF8)):
            return
        yield line, data.removesuffix(b"\n").removesuffix(b"\r"), whole


def _documents(folder: Path, origin: _Origin) -> Iterator[Row]:
    documents, ignored = documents_in(folder)
    origin.tally.ignored += ignored
    if not documents:
        raise CapstextError(f"{folder}: no text files in this folder (.txt, .text or without a suffix)")
    for path in documents:
        document = replace(origin, file=str(path))
        try:
            with _opened(path, document.file) as stream:
                data = stream.read(origin.line_limit)
                whole = not stream.read(1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
            raise CapstextError(f"{path}: damaged gzip file ({fault})") from None
        except OSError as fault:
            raise CapstextError(f"cannot read {path}: {fault.strerror or fault}") from None
        text = document.decode(data.removeprefix(codecs.BOM_UTF8), 1, whole=whole)
        text = document.bound(text.replace("\r\n", "\n").removesuffix("\n"))
        yield Row(path.relative_to(folder).as_posix(), text, {}, str(path), 1)


def _opened(path: str | Path, file: str) -> AbstractContextManager[BinaryIO]:
    if str(path) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return gzip.open(path, "rb") if Path(path).suffix == ".gz" else open(path, "rb")  # type: ignore[return-value]
    except FileNotFoundError:
        raise CapstextError(f"no such file: {file}") from None
    except OSError as fault:
        raise CapstextError(f"cannot read {file}: {fault.strerror or fault}") from None


def _by_name(found: Iterable[str], names: Sequence[str]) -> str | None:
    by_folded = {name.strip().casefold(): name for name in reversed(list(found))}
    return next((by_folded[name] for name in names if name in by_folded), None)
