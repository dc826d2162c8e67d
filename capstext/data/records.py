"""Lines of CSV, TSV or JSON become records, each with the line on which it begins; a bad one falls alone."""

import csv
import json
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO

from capstext.data.lines import Origin, byte_lines
from capstext.errors import CapstextError

Line = tuple[int, str | None]  # None stands for a line that is too long
Record = tuple[int, dict[str, Any] | None]  # None stands for a record that is skipped

RECORD_LIMIT = 16_000_000  # bytes of one line, characters of one field
RECORD_LINES = 100_000  # lines of one quoted field: more of them are taken for an open quote


def records(stream: BinaryIO, kind: str, origin: Origin) -> Iterator[Record]:
    lines = _lines(stream, origin)
    if kind == "jsonl":
        return _json_records(lines, origin)
    return _csv_records(lines, "\t" if kind == "tsv" else ",", origin)


def _lines(stream: BinaryIO, origin: Origin) -> Iterator[Line]:
    for line, data, whole in byte_lines(stream, RECORD_LIMIT):
        if not whole:
            origin.bad(line, f"a line of more than {RECORD_LIMIT:,} bytes")
        yield line, origin.decode(data, line) if whole else None


def _json_records(lines: Iterator[Line], origin: Origin) -> Iterator[Record]:
    for line, text in lines:
        if text is None:
            yield line, None
        elif text.strip():
            yield line, _json_fields(text, line, origin)


def _json_fields(text: str, line: int, origin: Origin) -> dict[str, Any] | None:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        fault = f"bad JSON ({error.msg} at column {error.colno})"
    except (ValueError, RecursionError) as error:
        fault = f"bad JSON ({error})"
    else:
        if isinstance(fields, dict):
            return {origin.clean(name): origin.clean(value) for name, value in fields.items()}
        fault = f"not a JSON object but {type(fields).__name__}"
    origin.bad(line, fault)
    return None


def _csv_records(lines: Iterator[Line], delimiter: str, origin: Origin) -> Iterator[Record]:
    rows = _csv_cells(lines, delimiter, origin)
    line, header = next(rows, (0, None))
    if header is None:
        return
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise CapstextError(f"{origin.file}:{line}: column {twice!r} stands twice in the header")
    for line, cells in rows:
        if cells is not None and len(cells) != len(header):
            origin.bad(line, f"{len(cells)} fields where the header has {len(header)}")
            cells = None
        yield line, None if cells is None else dict(zip(header, cells, strict=True))


def _csv_cells(
    lines: Iterator[Line], delimiter: str, origin: Origin
) -> Iterator[tuple[int, list[str] | None]]:
    """Of a bad record only the first line is given up: the ones behind it are read again."""
    csv.field_size_limit(RECORD_LIMIT)
    waiting: deque[Line] = deque()
    taken: list[Line] = []

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
        except csv.Error as error:
            (line, _), *behind = taken
            told = str(error) == "record too long" and len(taken) <= RECORD_LINES
            if not told:
                open_quote = any(sign in str(error) for sign in ("unexpected end", "too long", "field limit"))
                fault = "a quote is opened and never closed" if open_quote else f"bad quoting ({error})"
                origin.bad(line, fault)
            waiting.extendleft(reversed(behind))
            taken.clear()
            yield line, None
