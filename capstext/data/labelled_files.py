"""One's own tables, and folders with a folder a class, read once and kept as Arrow files by `datasets`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from capstext.caches import fingerprint
from capstext.data.columns import require_label
from capstext.data.corpora import Found, Options
from capstext.data.labels import LabelledTexts, labelled, labels_in
from capstext.data.lines import Tally
from capstext.data.reading import documents_in, kind_of, read_rows, sniff
from capstext.errors import CapstextError

CACHE_FORMAT = 2  # raise it when rows are read in another way: old caches are then left alone


def from_files(name: str, paths: Mapping[str, Path], origin: str, options: Options) -> Found:
    """Tables, which all have the columns of the first, or folders with a folder a class."""
    text, label = options.text_column, options.label_column
    splits: dict[str, LabelledTexts] = {}
    notes: list[str] = []
    for split, path in paths.items():
        columns = None
        if kind_of(path) != "folder":
            found = sniff(path, text_column=text, label_column=label)
            columns = text, label = found.text, require_label(str(path), found)
        splits[split], told = _read(path, columns, options)
        notes += [f"{path.name}: {note}" for note in told]
    text, label = columns or ("document", "folder")
    return Found(
        name=name, splits=splits, origin=origin, text_column=text, label_column=label, notes=tuple(notes)
    )


def _read(
    path: Path, columns: tuple[str, str] | None, options: Options
) -> tuple[LabelledTexts, tuple[str, ...]]:
    import datasets

    features = datasets.Features(
        text=datasets.Value("string"),
        labels=datasets.List(datasets.Value("string")),
        line=datasets.Value("int64"),
    )
    files = documents_in(path)[0] if path.is_dir() else [path]
    state = (CACHE_FORMAT, fingerprint(*files))
    arguments = {"path": str(path), "columns": columns, "options": options, "state": state}
    try:
        rows = datasets.Dataset.from_generator(_generated, features=features, gen_kwargs=arguments)
    except datasets.exceptions.DatasetGenerationError as error:
        if isinstance(error.__cause__, CapstextError):
            raise error.__cause__ from None
        raise
    count = len(rows) - 1
    if not count:
        raise CapstextError(f"{path}: no rows")
    last = json.loads(rows[count]["text"])
    rows = rows.select(range(count))
    texts = labelled(rows, text_column="text", label_column="labels", file=str(path))
    tally = Tally(**last["tally"])
    lines = rows.data.column("line").to_numpy()
    return replace(texts, lines=lines, listed=last["listed"]), (*tally.notes(), *tally.faults)


def _generated(
    *, path: str, columns: tuple[str, str] | None, options: Options, state: object
) -> Iterator[dict[str, Any]]:
    """The rows, and a last one that holds the tally: the cache then tells it again."""
    tally = Tally()
    listed = False
    separated = columns is not None and kind_of(path) != "jsonl"
    text_column, label_column = columns or (None, "")
    read = partial(
        read_rows, text_column=text_column, errors=options.errors, skip_bad=options.skip_bad, tally=tally
    )
    for source, name in [(path, None)] if columns else _class_folders(Path(path)):
        for row in read(source):
            value = row.fields.get(label_column, name)
            listed = listed or isinstance(value, list)
            yield {"text": row.text, "labels": labels_in(value, separated=separated), "line": row.line}
    yield {"text": json.dumps({"tally": vars(tally), "listed": listed}), "labels": [], "line": 0}


def _class_folders(folder: Path) -> list[tuple[str, str | None]]:
    folders = sorted(path for path in folder.iterdir() if path.is_dir() and documents_in(path)[0])
    if not folders:
        raise CapstextError(
            f"{folder}: neither tables nor parquet files nor a folder of text files for each class"
        )
    return [(str(path), path.name) for path in folders]
