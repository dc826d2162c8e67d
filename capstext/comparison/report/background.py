"""What stands behind the figures: rows, protocol, budget, settings, and what the tests mean."""

import json
from collections.abc import Sequence
from typing import Any

from capstext.comparison.records import Record
from capstext.comparison.report import settings, wording
from capstext.comparison.report.blocks import Block, Bullets, Entry, Grid, Paragraph
from capstext.comparison.report.cells import Cell, Table
from capstext.data.catalog import known_dataset

MEANING = (
    "The figure after ± is the deviation of single runs (n - 1 below the line), not the error of the mean.",
    "A row's reference is the best baseline by mean, on the same embeddings or on none, with at least as "
    "many runs. Static routing counts as a baseline, as it does not route by agreement. The reference is "
    "picked by its test score, which is in its favour.",
    "p, rows: McNemar's test on the test rows that one of the two had wholly right and the other had not; "
    "exact where they are few. A row that several seeds answered counts once (McNemar 1947; Durkalski et "
    "al. 2003).",
    "p, runs, and the interval: 10,000 resamples of the differences between runs of the same fold and seed "
    "(Efron and Tibshirani 1993). n runs cannot give less than 1 in 2^(n-1), so up to five runs never reach "
    ".05. Folds share training rows, so the interval is rather too narrow (Nadeau and Bengio 2003).",
    "Both p are corrected for the number of rows in the table (Holm 1979).",
    "better, worse: both tests below .05. On these rows, over the runs: one of them alone. Not told apart: "
    "neither, which does not mean equal.",
    "Calibration error: how far confidence and accuracy lie apart, in 15 bins (Guo et al. 2017).",
    "Times and memory are of the machine at hand, to be compared within a table only.",
)


def parts(tables: Sequence[Table]) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """What tells each table from the others: its data set; its split and protocol where they are needed."""
    found = {}
    for table in tables:
        alike = {one.protocol for one in tables if (one.dataset, one.split) == (table.dataset, table.split)}
        split = () if table.split == "test" else (table.split,)
        found[table.key] = (table.dataset, *split, *((table.protocol,) if len(alike) > 1 else ()))
    return found


def rows(tables: Sequence[Table]) -> str:
    """How many rows were trained and tested on, and whether that is all of the data set."""
    sentences = []
    for record in _one_of_each_size(tables):
        counts = wording.listed([f"{count:,} {name}" for name, count in record.rows.items()])
        sentences.append(f"Rows: {counts} ({record.protocol}{_subset(record)}).")
    return " ".join(sentences)


def overview(tables: Sequence[Table]) -> list[Block]:
    """For every data set: rows, runs, epochs, trials; then the vectors and the machines."""
    lines = []
    for name in dict.fromkeys(table.dataset for table in tables):
        own = [table for table in tables if table.dataset == name]
        records = _records(own)
        runs = sorted({cell.n for table in own for cell in table.cells})
        made = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        epochs = sorted(
            {record.config.get("training", {}).get("epochs") or record.epochs for record in records}
        )
        budget = f"up to {wording.listed([str(number) for number in epochs])} epochs"
        trials = settings.trials(records)
        if trials:
            budget += f", settings chosen from {trials} by validation score"
        known = known_dataset(own[0].source)
        note = f" {known.note}" if known and known.note else ""
        lines.append(f"{name}: {rows(own)} Runs a row: {made}; budget: {budget}.{note}")
    vectors = sorted({(cell.embeddings, _vectors(cell)) for table in tables for cell in table.cells})
    named: dict[str, list[str]] = {}
    for label, source in vectors:
        if label not in ("none", "random", "pixels"):
            named.setdefault(label, []).append(source)
    lines += [f"Embeddings {label}: {wording.listed(sources)}." for label, sources in named.items()]
    everything = _records(tables)
    devices = wording.listed(sorted({record.device for record in everything}))
    versions = wording.listed(
        sorted({f"{name} {version}" for one in everything for name, version in one.versions.items()})
    )
    last = max(record.finished for record in everything)
    lines.append(f"Devices: {devices}; {versions}. Last run finished {last}.")
    return [Bullets(tuple(lines))]


def settings_of(tables: Sequence[Table]) -> list[Block]:
    """What all rows share, and what is special to each."""
    cells: dict[tuple[str, str], list[Record]] = {}
    for table in tables:
        for cell in table.cells:
            cells.setdefault((cell.model, cell.embeddings), []).extend(cell.records)
    own = {key: settings.shared(records) for key, records in cells.items()}
    common = settings.common(list(own.values()))
    grid = []
    for (model, embeddings), flat in sorted(own.items()):
        special = [f"{key} {_value(value)}" for key, value in flat.items() if key not in common]
        special += [f"{key} differs between runs" for key in settings.varied(cells[model, embeddings])]
        trials = settings.trials(cells[model, embeddings])
        if trials:
            special.append(f"best of {trials} trials")
        grid.append((Entry(model), Entry(embeddings), Entry("; ".join(special) or "nothing more")))
    shared = "; ".join(f"{key} {_value(value)}" for key, value in common.items())
    return [
        Paragraph(f"Shared by all rows: {shared or 'nothing'}."),
        Grid(("model", "embeddings", "its own settings"), tuple(grid), words=3),
    ]


def _subset(record: Record) -> str:
    """Says so where fewer rows were used than the data set has by its source."""
    known = known_dataset(record.source)
    if known is None:
        return ""
    published = {name: count for name, count in known.splits.items() if name not in known.extra_training}
    tested = sum(count for name, count in published.items() if name.startswith("test"))
    used_tests = sum(count for name, count in record.rows.items() if name.startswith("test"))
    # with folds, or where the test rows are cut by us, only the sum can be compared
    whole = record.fold is not None or not tested
    used, of = sum(record.rows.values()), sum(published.values())
    if not whole:
        used, of = used - used_tests, of - tested
    parts = (
        [f"a subset: {used:,} of {of:,} published {'' if whole else 'training '}rows"] if used < of else []
    )
    if not whole and used_tests < tested:
        parts.append(f"{used_tests:,} of {tested:,} published test rows")
    return "".join(f"; {part}" for part in parts)


def _one_of_each_size(tables: Sequence[Table]) -> list[Record]:
    """The first run of every protocol; folds differ by a row, and say the same."""
    found: dict[str, Record] = {}
    for record in _records(tables):
        found.setdefault(record.protocol, record)
    return list(found.values())


def _records(tables: Sequence[Table]) -> list[Record]:
    return [record for table in tables for cell in table.cells for record in cell.records]


def _vectors(cell: Cell) -> str:
    flat = settings.shared(cell.records)
    encoder, mode = flat.get("embeddings.encoder"), flat.get("embeddings.mode")
    if mode in ("frozen", "fine-tuned"):
        return f"{encoder}, {mode}"
    if mode == "random":
        return f"random, {flat.get('embeddings.dim', 'unknown')}-d"
    return str(flat.get("embeddings.vectors", "not named"))


def _value(value: Any) -> str:
    """As a config file would have it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
