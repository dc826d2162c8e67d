"""`capstext data`: which data sets are known, where they are, what is in them and what is wrong with them."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capstext.cli.answers import printable
from capstext.data.catalog import DATASETS, KnownDataset, known_dataset
from capstext.data.image_catalog import IMAGE_DATASETS
from capstext.data.reading import ErrorPolicy
from capstext.errors import UsageError

if TYPE_CHECKING:
    from datasets import Dataset

    from capstext.data.sources import Corpus

Name = Annotated[str, typer.Argument(help="A known name, a file, a folder or a hub id.", metavar="NAME|PATH")]
TextColumn = Annotated[str | None, typer.Option(help="Column that holds the text; guessed if not given.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column that holds the labels; guessed if not given.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]

FEW_ROWS = 10
_REPLACED = re.compile("\ufffd")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # C1 controls are bytes of another encoding

data_app = typer.Typer(
    help="What data sets are known, where they are, what is in them.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    app.add_typer(data_app, name="data")


@data_app.command("list")
def list_datasets(as_json: Json = False) -> None:
    """The known data sets and where each would be taken from."""
    from capstext.cli.image_data import listed_images

    rows = [_listed(known) for known in DATASETS.values()]
    rows += [listed_images(known) for known in IMAGE_DATASETS.values()]
    if as_json:
        _print_json(rows)
        return
    table = [("name", "rows", "classes", "holds", "protocol", "found", "title")]
    for row in rows:
        cells = (row["name"], f"{row['rows']:,}", str(len(row["classes"])), row["holds"], row["protocol"])
        table.append((*cells, row["found"] or "-", row["title"]))
    _print_table(table)


@data_app.command()
def info(
    name: Name,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Go on past bad rows and count them.")] = False,
    errors: Annotated[
        ErrorPolicy, typer.Option(help="What to do about bytes that are not UTF-8.")
    ] = "strict",
    as_json: Json = False,
) -> None:
    """Splits, classes, lengths or sizes, terms."""
    from capstext.data.images import holds_images
    from capstext.data.sources import load

    if holds_images(name):
        _refuse_columns(name, text_column, label_column)
        _image_info(name, skip_bad=skip_bad, as_json=as_json)
        return
    corpus = load(
        name,
        text_column=text_column,
        label_column=label_column,
        skip_bad=skip_bad,
        errors=errors,
        for_training=False,
    )
    facts = _facts(corpus)
    if known := known_dataset(name):
        facts |= {"title": known.title, "source": known.source, "licence": known.licence, "note": known.note}
        facts["hub"] = f"{known.hub.id}@{known.hub.revision}" if known.hub else None
    if as_json:
        _print_json(facts)
        return
    _print_facts(facts, _table_of_lengths(facts))
    _print_classes(facts["classes"])


@data_app.command()
def check(
    name: Name, text_column: TextColumn = None, label_column: LabelColumn = None, as_json: Json = False
) -> None:
    """Bad rows and images, encoding faults, empty and repeated ones, rare classes; unlabelled texts, too."""
    from capstext.data.images import holds_images

    findings: list[str] | None = None
    if holds_images(name):
        from capstext.cli.image_data import image_findings

        _refuse_columns(name, text_column, label_column)
        findings, classes, rows = image_findings(name)
        findings += _class_findings(classes)
    elif _is_plain_text(name):
        findings, rows = _unlabelled_findings(name, text_column)
    if findings is None:
        from capstext.data.sources import load

        corpus = load(
            name,
            text_column=text_column,
            label_column=label_column,
            skip_bad=True,
            errors="replace",
            for_training=False,
        )
        findings, rows = _findings(corpus), sum(map(len, corpus.splits.values()))
    if as_json:
        _print_json({"name": name, "rows": rows, "findings": findings})
        return
    for finding in findings:
        print(finding)
    print(f"{rows:,} rows checked, {len(findings) or 'no'} finding{'s' * (len(findings) != 1)}")


def _listed(known: KnownDataset) -> dict[str, Any]:
    from capstext.data.sources import locate

    location = locate(known)
    return {
        "name": known.name,
        "title": known.title,
        "rows": sum(known.splits.values()),
        "splits": dict(known.splits),
        "classes": list(known.classes),
        "holds": f"texts, {known.language}",
        "language": known.language,
        "protocol": f"{known.folds} folds" if known.folds else known.protocol,
        "licence": known.licence,
        "found": location.kind if location else None,
        "where": location.where if location else None,
    }


def _image_info(name: str, *, skip_bad: bool, as_json: bool) -> None:
    from capstext.cli.image_data import image_facts, table_of_splits

    facts = image_facts(name, skip_bad=skip_bad)
    if as_json:
        _print_json(facts)
        return
    _print_facts(facts, table_of_splits(facts))
    _print_classes(facts["classes"])


def _refuse_columns(name: str, *columns: str | None) -> None:
    if any(columns):
        raise UsageError(f"{name} holds images: leave out --text-column and --label-column")


def _facts(corpus: "Corpus") -> dict[str, Any]:
    return {
        "name": corpus.name,
        "origin": corpus.origin,
        "text column": corpus.text_column,
        "label column": corpus.label_column,
        "labels": "several a text" if corpus.multi_label else "one a text",
        "protocol": f"{corpus.folds} folds" if corpus.folds else corpus.protocol,
        "notes": list(corpus.notes),
        "splits": {split: _lengths(rows) for split, rows in corpus.splits.items()},
        "classes": _class_counts(corpus),
    }


def _class_counts(corpus: "Corpus") -> dict[str, dict[str, int]]:
    import numpy as np

    counts = {}
    for split, rows in corpus.splits.items():
        flat = rows.data.column("labels").combine_chunks().flatten().to_numpy()
        counts[split] = np.bincount(flat, minlength=len(corpus.classes)).tolist()
    return {
        name: {split: found[number] for split, found in counts.items()}
        for number, name in enumerate(corpus.classes)
    }


def _lengths(rows: "Dataset") -> dict[str, Any]:
    import numpy as np

    characters, words = [0], [0]
    for batch in rows.select_columns("text").iter(1000):
        characters += [len(text) for text in batch["text"]]
        words += [len(text.split()) for text in batch["text"]]
    return {"rows": len(rows)} | {
        what: {
            "median": float(np.median(values)),
            "95%": float(np.percentile(values, 95)),
            "max": max(values),
        }
        for what, values in (("characters", characters[1:] or [0]), ("words", words[1:] or [0]))
    }


def _findings(corpus: "Corpus") -> list[str]:
    import numpy as np

    findings = list(corpus.notes)
    hashes: dict[str, Any] = {}
    for split, rows in corpus.splits.items():
        empty = replaced = control = 0
        found = []
        for batch in rows.select_columns("text").iter(1000):
            for text in batch["text"]:
                found.append(hash(text.strip()))
                empty += not text.strip()
                replaced += bool(_REPLACED.search(text))
                control += bool(_CONTROL.search(text))
        hashes[split] = np.array(found, dtype=np.int64)
        faults = {
            "empty texts": empty,
            "texts that repeat another one": len(found) - len(np.unique(hashes[split])),
            "texts with U+FFFD, a character lost before": replaced,
            "texts with control characters: another encoding?": control,
        }
        findings += [f"split {split}: {count:,} {what}" for what, count in faults.items() if count]
    splits = [split for split in hashes if split not in corpus.extra_training]
    for place, first in enumerate(splits):
        for second in splits[place + 1 :]:
            if both := len(np.intersect1d(hashes[first], hashes[second])):
                findings.append(f"{both:,} texts stand in both {first} and {second}")
    return findings + _class_findings(_class_counts(corpus))


def _class_findings(classes: dict[str, dict[str, int]]) -> list[str]:
    findings = []
    counts = {name: found_in["train"] for name, found_in in classes.items() if "train" in found_in}
    if counts and sum(count > 0 for count in counts.values()) < 2:
        findings.append("one class only: a classifier needs two")
    if rare := [f"{name} ({count})" for name, count in counts.items() if count < FEW_ROWS]:
        findings.append(
            f"{len(rare)} class{'es' * (len(rare) != 1)} with fewer than {FEW_ROWS} training rows: "
            f"{', '.join(rare)}"
        )
    return findings


def _is_plain_text(name: str) -> bool:
    """Whether NAME holds texts without labels, as `capstext classify` reads them."""
    from capstext.data.reading import documents_in, kind_of, sniff

    path = Path(name)
    if known_dataset(name) or not (path.exists() or name == "-") or path.suffix == ".parquet":
        return False
    kind = kind_of(path)
    if kind == "folder":
        direct = [file for file in documents_in(path)[0] if file.parent == path]
        return bool(direct) and not any(path.rglob("*.parquet"))
    return kind == "text" or sniff(path).label is None


def _unlabelled_findings(name: str, text_column: str | None) -> tuple[list[str], int]:
    from capstext.data.reading import Tally, read_rows

    tally = Tally()
    control = 0
    for row in read_rows(name, text_column=text_column, errors="replace", skip_bad=True, tally=tally):
        control += bool(_CONTROL.search(row.text))
    findings = [*tally.notes(), *tally.faults]
    if control:
        findings.append(f"{control:,} texts with control characters: another encoding?")
    return findings, tally.rows


def _print_facts(facts: dict[str, Any], splits: Sequence[tuple[str, ...]]) -> None:
    for key, value in facts.items():
        if key in ("splits", "classes") or value in (None, "", []):
            continue
        for line in value if isinstance(value, list) else [value]:
            print(f"{key + ':':14}{line}")
    print()
    _print_table(splits)


def _table_of_lengths(facts: dict[str, Any]) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = [
        ("split", "rows", "words: median", "95%", "max", "characters: median", "95%", "max")
    ]
    for split, found in facts["splits"].items():
        cells = [
            f"{found[what][part]:,.0f}"
            for what in ("words", "characters")
            for part in ("median", "95%", "max")
        ]
        table.append((split, f"{found['rows']:,}", *cells))
    return table


def _print_classes(classes: dict[str, dict[str, int]]) -> None:
    splits = list(next(iter(classes.values())))
    table = [("class", *splits)]
    table += [(name, *(f"{found[split]:,}" for split in splits)) for name, found in classes.items()]
    print()
    _print_table(table)


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numbers = [
        all(re.fullmatch(r"[\d,]+", cell) for cell in column[1:]) for column in zip(*rows, strict=True)
    ]
    for row in rows:
        cells = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    print()
