"""Rows from text files, tables, JSON lines, folders and stdin: streamed, faults named by file and line."""

import codecs
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from capstext.data.columns import GUESSING_ROWS, Columns, by_name, guess_columns
from capstext.data.lines import MAX_CHARACTERS, ErrorPolicy, Origin, Tally, byte_lines, opened
from capstext.data.records import Record, records
from capstext.errors import CapstextError, UsageError

__all__ = ["ErrorPolicy", "Kind", "Row", "Tally", "documents_in", "kind_of", "read_rows", "sniff"]

Kind = Literal["text", "csv", "tsv", "jsonl", "folder"]

DOCUMENT_SUFFIXES = ("", ".txt", ".text")
_KINDS: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


@dataclass(frozen=True, slots=True)
class Row:
    id: str | int | float
    text: str
    fields: Mapping[str, Any]
    file: str
    line: int


def kind_of(path: str | Path) -> Kind:
    return "folder" if Path(path).is_dir() else _KINDS.get(_suffix(Path(path)), "text")


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
    origin = Origin(
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
    if kind == "folder":
        rows = _documents(Path(path), origin)
    elif kind == "text":
        rows = _text_rows(path, origin)
    else:
        rows = _table_rows(path, kind, text_column, origin)
    for row in rows:
        tally.rows += 1
        tally.empty += not row.text.strip()
        yield row


def sniff(path: str | Path, *, text_column: str | None = None, label_column: str | None = None) -> Columns:
    """The columns of a table, judged by its first rows."""
    origin = Origin(file=str(path), errors="replace", skip_bad=True)
    with opened(path) as stream:
        known = (fields for _, fields in records(stream, kind_of(path), origin) if fields is not None)
        first = list(islice(known, GUESSING_ROWS))
    return guess_columns(first, file=origin.file, text_column=text_column, label_column=label_column)


def documents_in(folder: Path) -> tuple[list[Path], int]:
    """The text files under a folder, sorted by relative path, and the number of other files."""
    documents, ignored = [], 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if name.startswith(".") or _suffix(path := Path(parent, name)) not in DOCUMENT_SUFFIXES:
                ignored += 1
            else:
                documents.append(path)
    return sorted(documents, key=lambda path: path.relative_to(folder).as_posix()), ignored


def _suffix(path: Path) -> str:
    """In lower case, and the one before .gz."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def _documents(folder: Path, origin: Origin) -> Iterator[Row]:
    documents, ignored = documents_in(folder)
    origin.tally.ignored += ignored
    if not documents:
        raise CapstextError(f"{folder}: no text files in this folder (.txt, .text or without a suffix)")
    for path in documents:
        document = replace(origin, file=str(path))
        with opened(path) as stream:
            data = stream.read(origin.max_bytes)
            whole = not stream.read(1)
        text = document.decode(data.removeprefix(codecs.BOM_UTF8), 1, whole=whole)
        text = document.bound(text.replace("\r\n", "\n").removesuffix("\n"))
        yield Row(path.relative_to(folder).as_posix(), text, {}, document.file, 1)


def _text_rows(path: str | Path, origin: Origin) -> Iterator[Row]:
    with opened(path) as stream:
        for line, data, whole in byte_lines(stream, origin.max_bytes):
            text = origin.bound(origin.decode(data, line, whole=whole))
            yield Row(line, text, {}, origin.file, line)


def _table_rows(path: str | Path, kind: Kind, text_column: str | None, origin: Origin) -> Iterator[Row]:
    with opened(path) as stream:
        found = records(stream, kind, origin)
        first = list(islice(found, GUESSING_ROWS))
        known = [fields for _, fields in first if fields is not None]
        if not known:
            return
        text_column = guess_columns(known, file=origin.file, text_column=text_column).text
        origin.tally.text_column = text_column
        for number, record in enumerate(chain(first, found), start=1):
            if row := _table_row(number, record, text_column, origin):
                yield row


def _table_row(number: int, record: Record, text_column: str, origin: Origin) -> Row | None:
    line, fields = record
    if fields is None:
        return None
    if text_column not in fields:
        origin.bad(line, f"no column {text_column!r}")
        return None
    text = fields[text_column]
    if isinstance(text, list | dict):
        origin.bad(line, f"column {text_column!r} holds no text")
        return None
    identity = fields.get(by_name(fields, ("id",)) or "")
    return Row(
        id=identity if isinstance(identity, str | int | float) and identity != "" else number,
        text=origin.bound("" if text is None else str(text)),
        fields=fields,
        file=origin.file,
        line=line,
    )
