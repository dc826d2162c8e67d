"""From finished runs to tables: mean and deviation of every model, and each beside its best baseline."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from capstext.comparison.records import Record
from capstext.comparison.report import published, settings
from capstext.comparison.report.cells import BY_ROW, MULTI_LABEL, SINGLE_LABEL, Cell, Run, Score, Table
from capstext.comparison.report.pairing import run_name, tested
from capstext.comparison.report.statistics import LEVEL
from capstext.errors import CapstextError


def tables(records: Iterable[Record]) -> list[Table]:
    """A table for each data set, test split and protocol, whatever the order of the records."""
    grouped: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        for split in record.tests:
            grouped[record.dataset, split, record.protocol].append(record)
    return [_table(*key, grouped[key]) for key in sorted(grouped)]


def verdict(table: Table, cell: Cell) -> str | None:
    """The two tests in plain words: one over test rows, one over runs; none for a reference."""
    runs = cell.scores[table.main].against
    rows = cell.scores[next(metric for metric in table.metrics if metric in BY_ROW)].against
    if runs is None or rows is None:
        return None
    by_runs = _sign(runs.difference, runs.bootstrap_holm)
    by_rows = _sign(rows.difference, rows.mcnemar_holm)
    words = {1: "better", -1: "worse"}
    if by_runs == by_rows:
        return words.get(by_runs, "not told apart")
    if not by_runs:
        return f"{words[by_rows]} on these rows"
    return f"{words[by_runs]} over the runs" if not by_rows else "mixed"


def _sign(difference: float, p: float | None) -> int:
    return 0 if p is None or p >= LEVEL else int(np.sign(difference))


def _table(dataset: str, split: str, protocol: str, records: Sequence[Record]) -> Table:
    kinds = {bool(record.tests[split]["multi_label"]) for record in records}
    if len(kinds) > 1:
        raise CapstextError(
            f"{dataset}, {split}: some runs were scored with one label a row and some with several; "
            "the data have changed between them: remove the older runs"
        )
    (multi_label,) = kinds
    metrics = MULTI_LABEL if multi_label else SINGLE_LABEL
    grouped: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        grouped[record.model, record.embeddings].append(record)
    cells = [_cell(split, grouped[key], metrics) for key in sorted(grouped)]
    cells.sort(key=lambda cell: (-cell.scores[metrics[0]].mean, cell.name))
    cells = tested(cells, metrics)
    return Table(dataset=dataset, split=split, protocol=protocol, multi_label=multi_label, cells=tuple(cells))


def _cell(split: str, records: Sequence[Record], metrics: Sequence[str]) -> Cell:
    runs: dict[Run, Record] = {}
    for record in sorted(records, key=lambda one: (-1 if one.fold is None else one.fold, one.seed)):
        key = record.fold, record.seed
        if key in runs:
            raise CapstextError(
                f"{record.dataset}: two runs of {record.model} with embeddings {record.embeddings}, "
                f"{run_name(key)}; remove one of them"
            )
        runs[key] = record
    first = records[0]
    mode = settings.shared(records).get("embeddings.mode")
    label = published.nearest(first.model, mode)
    near = [figure for figure in published.figures(first.source, split) if label and figure.model == label]
    return Cell(
        model=first.model,
        embeddings=first.embeddings,
        split=split,
        runs=runs,
        scores={
            metric: Score(
                values=tuple(_value(record, split, metric) for record in runs.values()),
                published=tuple(figure for figure in near if figure.metric == metric),
            )
            for metric in metrics
        },
    )


def _value(record: Record, split: str, metric: str) -> float:
    scores = record.tests[split]
    kind, _, name = metric.partition("_")
    value = scores[kind][name] if name == "f1" else scores[metric]
    if value is None:
        raise CapstextError(f"{record.dataset}, {split}: no test row has a label, so there is no {metric}")
    return float(value)
