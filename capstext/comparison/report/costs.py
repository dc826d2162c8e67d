"""What a row of results took: parameters, time, memory; means over its runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capstext.comparison.report.cells import Cell


@dataclass(frozen=True)
class Costs:
    """Means over the runs; the memory is the most of any."""

    parameters: int
    trained_parameters: int
    training_seconds: float | None  # of runs that were not interrupted
    texts_per_second: float | None
    peak_memory: int | None
    best_epoch: float
    epochs: float
    macro_f1: float | None
    calibration_error: float | None


def costs(cell: Cell) -> Costs:
    """Numbers of parameters differ by fold, as vocabularies do; they are rounded means."""
    records = cell.records
    memory = [record.peak_memory for record in records if record.peak_memory is not None]
    return Costs(
        parameters=round(_mean([record.parameters for record in records]) or 0),
        trained_parameters=round(_mean([record.trained_parameters for record in records]) or 0),
        training_seconds=_mean([record.seconds["train"] for record in records if not record.interrupted]),
        texts_per_second=_mean([record.texts_per_second for record in records]),
        peak_memory=max(memory, default=None),
        best_epoch=_mean([record.best_epoch for record in records]) or 0.0,
        epochs=_mean([record.epochs for record in records]) or 0.0,
        macro_f1=_mean(cell.test_scores("macro", "f1")),
        calibration_error=_mean(cell.test_scores("expected_calibration_error")),
    )


def _mean(values: Sequence[float]) -> float | None:
    """Of those that are numbers: a time too short to measure may give an infinite speed."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None
