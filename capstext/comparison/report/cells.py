"""What a comparison comes to: tables of cells, each a model with its embeddings and all its runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from capstext.comparison.records import Answers, Record
from capstext.comparison.report.published import Published
from capstext.comparison.report.statistics import mean_and_deviation

Run = tuple[int | None, int]  # fold and seed
# The first one is what models are ranked by.
SINGLE_LABEL = ("accuracy",)
MULTI_LABEL = ("micro_f1", "samples_f1", "exact_match")
BY_ROW = ("accuracy", "exact_match")  # a row is right or wrong, so McNemar's test applies


@dataclass(frozen=True, kw_only=True)
class Against:
    """A model less its reference, over the runs that both have; p-values raw and corrected by Holm."""

    reference: str
    n: int
    difference: float
    low: float | None
    high: float | None
    bootstrap_p: float | None
    mcnemar_p: float | None
    bootstrap_holm: float | None = None
    mcnemar_holm: float | None = None


@dataclass(frozen=True, kw_only=True)
class Score:
    """One metric of a cell, run by run in the order of folds and seeds."""

    values: tuple[float, ...]
    against: Against | None = None
    published: tuple[Published, ...] = ()

    @property
    def mean(self) -> float:
        return mean_and_deviation(self.values)[0]

    @property
    def std(self) -> float | None:
        return mean_and_deviation(self.values)[1]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A model with its embeddings on the test rows of a table: all its runs, and what they come to."""

    model: str
    embeddings: str
    split: str
    runs: Mapping[Run, Record]  # by fold and seed
    scores: Mapping[str, Score]

    @property
    def name(self) -> str:
        return self.model if self.embeddings == "none" else f"{self.model} ({self.embeddings})"

    @property
    def baseline(self) -> bool:
        """Static routing does not route by agreement, so it is one. Kim et al. 2018."""
        return all(
            record.family == "baseline" or record.config.get("routing", {}).get("name") == "static"
            for record in self.records
        )

    @property
    def records(self) -> list[Record]:
        return list(self.runs.values())

    @property
    def n(self) -> int:
        return len(self.runs)

    def test_scores(self, *path: str) -> list[float]:
        """A number of every run's test scores, where it has one."""
        found = []
        for record in self.records:
            value: Any = record.tests[self.split]
            for key in path:
                value = value[key]
            if value is not None:
                found.append(float(value))
        return found

    def answers(self) -> list[Answers]:
        return [record.answers[self.split] for record in self.records]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The models that were tested on the same rows in the same way, best first."""

    dataset: str
    split: str
    protocol: str
    multi_label: bool
    cells: tuple[Cell, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.dataset, self.split, self.protocol

    @property
    def source(self) -> str:
        return self.cells[0].records[0].source

    @property
    def metrics(self) -> tuple[str, ...]:
        return MULTI_LABEL if self.multi_label else SINGLE_LABEL

    @property
    def main(self) -> str:
        return self.metrics[0]

    @property
    def classes(self) -> tuple[str, ...]:
        return self.cells[0].records[0].classes

    @property
    def references(self) -> set[str]:
        return {against.reference for cell in self.cells if (against := cell.scores[self.main].against)}

    def best(self, *, baseline: bool) -> Cell | None:
        return next((cell for cell in self.cells if cell.baseline == baseline), None)
