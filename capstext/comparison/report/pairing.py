"""Every cell of a table beside its best baseline, run by run and row by row."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from capstext.comparison.report.cells import BY_ROW, Against, Cell, Run
from capstext.comparison.report.statistics import holm, mcnemar, mean_and_deviation, paired_bootstrap
from capstext.errors import CapstextError


def tested(cells: Sequence[Cell], metrics: Sequence[str]) -> list[Cell]:
    """Every cell beside its reference, p-values corrected over the table."""
    references = [_reference(cell, cells) for cell in cells]
    scores = [dict(cell.scores) for cell in cells]
    for metric in metrics:
        found = [
            _against(cell, reference, metric) if reference is not None else None
            for cell, reference in zip(cells, references, strict=True)
        ]
        bootstrap = holm([against.bootstrap_p if against else None for against in found])
        rows = holm([against.mcnemar_p if against else None for against in found])
        for own, against, over_runs, over_rows in zip(scores, found, bootstrap, rows, strict=True):
            if against is not None:
                against = replace(against, bootstrap_holm=over_runs, mcnemar_holm=over_rows)
                own[metric] = replace(own[metric], against=against)
    return [replace(cell, scores=own) for cell, own in zip(cells, scores, strict=True)]


def _reference(cell: Cell, cells: Sequence[Cell]) -> Cell | None:
    """The best baseline on the same embeddings or none, with as many runs; none for that baseline itself."""
    for other in cells:  # best first
        fair = other.baseline and other.n >= cell.n and other.embeddings in (cell.embeddings, "none")
        if fair and other.runs.keys() & cell.runs.keys():
            return None if other is cell else other
    return None


def _against(cell: Cell, reference: Cell, metric: str) -> Against:
    pairs = [key for key in cell.runs if key in reference.runs]
    own, other = (dict(zip(one.runs, one.scores[metric].values, strict=True)) for one in (cell, reference))
    differences = [own[key] - other[key] for key in pairs]
    wins = _wins(cell, reference, pairs)
    interval = paired_bootstrap(differences)
    return Against(
        reference=reference.name,
        n=len(pairs),
        difference=mean_and_deviation(differences)[0],
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        bootstrap_p=interval.p if interval else None,
        mcnemar_p=mcnemar(wins) if metric in BY_ROW else None,
    )


def _wins(cell: Cell, reference: Cell, pairs: Sequence[Run]) -> NDArray[np.int64]:
    """Of every test row, the runs that only the cell had right less those that only the reference had."""
    labels: dict[int | None, NDArray[np.bool_]] = {}
    wins: dict[int | None, NDArray[np.int64]] = {}
    for key in pairs:
        own, other = (one.runs[key].answers[cell.split] for one in (cell, reference))
        truth = labels.setdefault(key[0], own.labels)  # seeds of one fold share their rows
        if not (np.array_equal(truth, own.labels) and np.array_equal(truth, other.labels)):
            raise CapstextError(
                f"{cell.records[0].dataset}, {cell.split}: {cell.name} and {reference.name} were tested on "
                f"different rows ({run_name(key)}); the data have changed between them: remove the older runs"
            )
        gained = own.right.astype(np.int64) - other.right
        wins[key[0]] = wins.get(key[0], np.zeros_like(gained)) + gained
    return np.concatenate(list(wins.values()))


def run_name(key: Run) -> str:
    """Which of the runs it is, in words."""
    fold, seed = key
    return f"seed {seed}" if fold is None else f"fold {fold}, seed {seed}"
