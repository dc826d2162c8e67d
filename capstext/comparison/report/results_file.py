"""results.json: one record for each row and metric of the tables, to be read by programs."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from capstext.comparison.report import settings
from capstext.comparison.report.cells import Against, Cell, Table
from capstext.comparison.report.costs import costs

DIGITS = 6


def as_json(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """All rows in the order of the tables; shares of 1, seconds, bytes; null where there is nothing."""
    return [
        _plain(_record(table, cell, metric))
        for table in tables
        for metric in table.metrics
        for cell in table.cells
    ]


def _record(table: Table, cell: Cell, metric: str) -> dict[str, Any]:
    score = cell.scores[metric]
    tested = {field.name: None for field in dataclasses.fields(Against)}
    if score.against is not None:
        tested = dataclasses.asdict(score.against)
    tested["pairs"] = tested.pop("n")
    return {
        "dataset": table.dataset,
        "split": table.split,
        "model": cell.model,
        "embeddings": cell.embeddings,
        "protocol": table.protocol,
        "metric": metric,
        "mean": score.mean,
        "std": score.std,
        "n": cell.n,
        "published": [
            {"value": figure.value, "source": figure.source, "note": figure.note, "system": figure.system}
            for figure in score.published
        ],
        "config": settings.nested(settings.shared(cell.records)),
        "values": list(score.values),
        "baseline": cell.baseline,
        **tested,
        **dataclasses.asdict(costs(cell)),
        "trials": settings.trials(cell.records),
        "devices": sorted({record.device for record in cell.records}),
    }


def _plain(value: Any) -> Any:
    """Floats rounded, so that a file changes where results do; what is no number is null."""
    if isinstance(value, float):
        return round(value, DIGITS) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
