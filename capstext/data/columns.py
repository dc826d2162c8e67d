"""Which column of a table holds the text, and which the labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capstext.errors import CapstextError, UsageError

GUESSING_ROWS = 100
TEXT_NAMES = (
    *("text", "sentence", "review", "content", "document", "question", "body", "comment"),
    *("message", "description", "tweet", "utterance", "query", "title"),
)
LABEL_NAMES = (
    *("label", "labels", "class", "classes", "category", "categories", "target", "topic", "topics"),
    *("label_text", "label_name", "sentiment", "intent", "coarse_label", "tag", "tags", "polarity", "y"),
)


@dataclass(frozen=True)
class Columns:
    """The columns of a table, and which of them hold the text and the labels."""

    found: tuple[str, ...]
    text: str
    label: str | None


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
    require_columns(file, (text_column, label_column), found)
    label = label_column or by_name((name for name in found if name != text_column), LABEL_NAMES)
    free = [name for name in found if name != label and name.casefold() != "id"]
    lengths = {
        name: sum(len(value) for row in rows if isinstance(value := row.get(name), str)) for name in free
    }
    text = text_column or by_name(free, TEXT_NAMES) or max(free, key=lengths.__getitem__, default=None)
    if text is None or (text_column is None and not any(isinstance(row.get(text), str) for row in rows)):
        raise UsageError(
            f"{file}: no column holds text; columns found: {', '.join(found)}; name one with --text-column"
        )
    others = [name for name in free if name != text]
    if label is None and len(others) == 1:
        label = others[0]
    return Columns(found, text, label)


def require_columns(file: str, wanted: Iterable[str | None], found: Sequence[str]) -> None:
    for column in wanted:
        if column is not None and column not in found:
            raise UsageError(f"{file}: no column {column!r}; columns found: {', '.join(found)}")


def require_label(file: str, columns: Columns) -> str:
    if columns.label is None:
        raise UsageError(
            f"{file}: no column holds labels; columns found: {', '.join(columns.found)}; "
            "name it with --label-column"
        )
    return columns.label


def by_name(found: Iterable[str], names: Sequence[str]) -> str | None:
    """The column that has one of these names, the first name before the others, in any case of letters."""
    by_folded = {name.strip().casefold(): name for name in reversed(list(found))}
    return next((by_folded[name] for name in names if name in by_folded), None)
