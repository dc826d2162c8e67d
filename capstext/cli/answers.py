"""From scores to fields, and how these are written: JSON lines, tables, or aligned for people."""

import csv
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

import typer

if TYPE_CHECKING:
    from capstext.classifier import Answer, Classifier
    from capstext.explain import Word
    from capstext.image_classifier import ImageClassifier

Format = Literal["text", "jsonl", "csv", "tsv"]
Record = Mapping[str, Any]
Write = Callable[[Record, str], object]

WORDS_SHOWN = 8
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class Item(NamedTuple):
    """What is kept of a row while it waits for its answer."""

    id: str | int | float
    file: str
    text: str


class Answers:
    """From a score for each class to the fields that were asked for."""

    def __init__(
        self,
        classifier: "Classifier | ImageClassifier",
        *,
        top: int | None,
        threshold: float | None,
        several: bool,
        explain: bool,
    ) -> None:
        self.classifier = classifier
        self.top = top and min(top, len(classifier.classes))
        self.threshold = threshold if threshold is not None else (0.5 if classifier.multi_label else 0.0)
        self.several = several
        self.explain = explain

    @property
    def columns(self) -> list[str]:
        labels = ["labels", "scores"] if self.classifier.multi_label else ["label", "score"]
        asked = {"file": self.several, "top": self.top, "words": self.explain}
        return [name for name in ("file", "id", *labels, "top", "words", "note") if asked.get(name, True)]

    def record(self, item: Item, answer: "Answer") -> dict[str, Any]:
        """The fields of one row; a field that has nothing to say is left out."""
        classes = self.classifier.classes
        scores = [round(score, 6) for score in answer.scores.tolist()]
        ranked = sorted(range(len(scores)), key=lambda place: -scores[place])
        best = [place for place in ranked if scores[place] >= self.threshold]
        record: dict[str, Any] = {"file": item.file} if self.several else {}
        record["id"] = item.id
        if self.classifier.multi_label:
            record["labels"] = [classes[place] for place in best]
            record["scores"] = [scores[place] for place in best]
        else:
            record["label"] = classes[ranked[0]] if best else None
            record["score"] = scores[ranked[0]]
        if self.top:
            record["top"] = [
                {"label": classes[place], "score": scores[place]} for place in ranked[: self.top]
            ]
        if self.explain:
            record["words"] = loudest(answer.words)
        unsure = not self.classifier.multi_label and not best
        notes = [
            name for name, true in (("empty", answer.empty), ("cut", answer.cut), ("unsure", unsure)) if true
        ]
        if notes:
            record["note"] = ", ".join(notes)
        return record


def loudest(words: list["Word"]) -> list[dict[str, Any]]:
    """The words that spoke most for or against the class."""
    shown = sorted(words, key=lambda word: -abs(word.relevance))[:WORDS_SHOWN]
    return [{"word": word.text, "relevance": round(word.relevance, 4)} for word in shown]


def writer(
    output: TextIO,
    form: Format,
    *,
    columns: Sequence[str],
    quote_formulas: bool,
    id_width: int,
    label_width: int,
) -> Write:
    """A function that writes a record; it is handed the text too, of which people are shown the beginning."""
    if form == "jsonl":
        return lambda record, text: output.write(
            json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        )
    if form == "text":
        width = shutil.get_terminal_size().columns
        paint = _painter(output)
        return lambda record, text: output.write(
            _for_people(record, text, id_width=id_width, label_width=label_width, width=width, paint=paint)
        )
    return _table_writer(output, form, columns=columns, quote_formulas=quote_formulas)


def _table_writer(output: TextIO, form: Format, *, columns: Sequence[str], quote_formulas: bool) -> Write:
    table = csv.writer(output, delimiter="\t" if form == "tsv" else ",", lineterminator="\n")
    started = False

    def write(record: Record, text: str) -> None:
        nonlocal started
        if not started:
            table.writerow(columns)
            started = True
        cells = [_cell(record.get(column)) for column in columns]
        table.writerow([_quoted(cell) for cell in cells] if quote_formulas else cells)

    return write


def _cell(value: Any) -> str:
    """One cell: of a list its items between semicolons, of a scored word or label `name=score`."""
    if isinstance(value, Mapping):
        name, score = value.values()
        return f"{name}={score}"
    if isinstance(value, list):
        return "; ".join(_cell(item) for item in value)
    return "" if value is None else str(value)


def _quoted(cell: str) -> str:
    """A spreadsheet takes a cell with such a start for a formula; an apostrophe makes it text."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def _for_people(
    record: Record, text: str, *, id_width: int, label_width: int, width: int, paint: Callable[..., str]
) -> str:
    many = "labels" in record
    labels = record["labels"] if many else [record["label"]]
    scores = record["scores"] if many else [record["score"]]
    name = printable(", ".join(label for label in labels if label is not None)) or "-"
    score = f"{max(scores):7.1%}" if scores else " " * 7
    place = printable(str(record["id"]))
    if "file" in record:
        file = printable(record["file"])
        place = file if file.endswith(f"/{place}") else f"{file}:{place}"
    note = f"  ({record['note']})" if "note" in record else ""
    start = f"{place:>{id_width}}  " if isinstance(record["id"], int) else f"{place:<{id_width}}  "
    taken = len(start) + max(label_width, len(name)) + 9 + 2 + len(note)
    line = f"{start}{paint(f'{name:<{label_width}}', bold=True)}  {score}"
    shown = printable(text[: 4 * width])[: max(width - taken, 20)]
    lines = [f"{line}  {paint(shown, dim=True)}{note}".rstrip()]
    indent = " " * (id_width + 2)
    if record.get("top"):
        lines.append(
            indent + "  ".join(f"{printable(item['label'])} {item['score']:.1%}" for item in record["top"])
        )
    if record.get("words"):
        lines.append(indent + "  ".join(_word(item, paint) for item in record["words"]))
    return "\n".join(lines) + "\n"


def _word(item: Mapping[str, Any], paint: Callable[..., str]) -> str:
    relevance = item["relevance"]
    shown = f"{printable(item['word'])} {relevance:+.2f}"
    return paint(shown, fg="green" if relevance > 0 else "red")


def printable(text: str) -> str:
    """Spaces for line ends and control characters: a text must not steer the terminal."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _painter(output: TextIO) -> Callable[..., str]:
    if output.isatty() and not os.environ.get("NO_COLOR"):
        return typer.style
    return lambda text, **_: text


def default_format() -> Format:
    return "text" if sys.stdout.isatty() else "jsonl"


def standard_output() -> TextIO:
    """UTF-8 whatever the locale; a file name that is not UTF-8 comes out as JSON writes it, `\\\\udcff`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="", line_buffering=False)
    return sys.stdout
