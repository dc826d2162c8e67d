"""Pictures of what a model gets wrong, and of how sure it is: confusion and reliability."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from capstext.comparison.report.cells import Cell, Table
from capstext.comparison.report.costs import costs
from capstext.comparison.report.drawing import GREY, MARKS, colour_of, drawable, new_figure
from capstext.comparison.report.wording import percent
from capstext.metrics import CALIBRATION_BINS

MOST_CLASSES = 10


def _best_two(table: Table) -> list[Cell]:
    return [cell for baseline in (False, True) if (cell := table.best(baseline=baseline)) is not None]


def confusion(cell: Cell) -> NDArray[np.int64]:
    """[true, predicted]: how often a class was given to texts of another, or rightly to its own.

    A text with several labels counts at each of them, and against them only what was wrongly added.
    """
    classes = len(cell.records[0].classes)
    counted = np.zeros((classes, classes), np.int64)
    for answers in cell.answers():
        truth, predicted = answers.labels.astype(np.int64), answers.predicted.astype(np.int64)
        counted += truth.T @ (predicted * (1 - truth))
        counted += np.diag((truth * predicted).sum(axis=0))
    return counted


def most_confused(counted: NDArray[np.int64], most: int) -> list[int]:
    """The classes of the most frequent confusions, at most so many, in their own order."""
    classes = len(counted)
    if classes <= most:
        return list(range(classes))
    wrong = counted - np.diag(np.diag(counted))
    chosen: list[int] = []
    for place in np.argsort(-wrong, axis=None, kind="stable"):
        pair = [number for number in divmod(int(place), classes) if number not in chosen]
        if len(chosen) + len(pair) <= most:
            chosen += dict.fromkeys(pair)
        if len(chosen) == most:
            break
    return sorted(chosen)


def confusion_figure(table: Table) -> Any:
    """Of the texts of each class, the share that was given each class, in %."""
    cells = _best_two(table)
    counted = [confusion(cell) for cell in cells]
    shown = most_confused(np.sum(counted, axis=0), MOST_CLASSES)
    labels = [drawable(table.classes[number], longest=18) for number in shown]
    side = 1.7 + 0.44 * len(shown)
    figure = new_figure(max(side * len(cells), 3.4 * len(cells)), max(side, 3.0))
    for axes, cell, counts in zip(
        figure.subplots(1, len(cells), squeeze=False)[0], cells, counted, strict=True
    ):
        texts = np.sum([answers.labels.sum(axis=0) for answers in cell.answers()], axis=0)[shown]
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = counts[np.ix_(shown, shown)] / texts[:, None]  # not a number where a class has no texts
        axes.imshow(shares, vmin=0, vmax=1, cmap="Blues" if cell.baseline else "Oranges", aspect="equal")
        for (row, column), share in np.ndenumerate(shares):
            text = "–" if np.isnan(share) else f"{100 * share:.0f}" if share >= 0.005 or not share else "<1"
            colour = "white" if share > 0.6 else GREY if not share else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
        axes.set_xticks(range(len(shown)), labels)
        if max(map(len, labels)) > 5:
            axes.tick_params(axis="x", rotation=45)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(shown)), labels)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(drawable(cell.name), fontsize=9)
        axes.set_xlabel("given; off the diagonal, wrongly" if table.multi_label else "predicted")
        axes.set_ylabel("true, % of its rows")
    if len(shown) < len(table.classes):
        figure.suptitle(f"the {len(shown)} most confused of {len(table.classes)} classes", fontsize=9)
    return figure


def pooled_bins(cell: Cell) -> list[dict[str, float]]:
    """Middle, mean confidence, accuracy and number of answers of every bin that has any, over all runs."""
    found = []
    for bins in zip(*(record.tests[cell.split]["reliability"] for record in cell.records), strict=True):
        number = sum(one["count"] for one in bins)
        if number:
            means = {
                key: sum(one["count"] * one[key] for one in bins if one["count"]) / number
                for key in ("confidence", "accuracy")
            }
            found.append({"middle": (bins[0]["from"] + bins[0]["to"]) / 2, "count": number, **means})
    return found


def reliability_figure(table: Table) -> Any:
    """Accuracy by confidence, a large mark for many answers. Guo et al. 2017, figure 1."""
    cells = _best_two(table)
    figure = new_figure(max(3.6 * len(cells), 3.8), 4.6)
    grid = figure.subplots(2, len(cells), squeeze=False, sharex=True, sharey="row", height_ratios=(3, 1))
    for (upper, lower), cell in zip(grid.T, cells, strict=True):
        bins = pooled_bins(cell)
        middle, confidence, accuracy, number = (
            np.array([one[key] for one in bins]) for key in ("middle", "confidence", "accuracy", "count")
        )
        share, colour = number / number.sum(), colour_of(cell)
        upper.plot([0, 100], [0, 100], color=GREY, linestyle=":", linewidth=1)
        upper.plot(100 * confidence, 100 * accuracy, color=colour, linewidth=1, alpha=0.5)
        upper.scatter(
            100 * confidence,
            100 * accuracy,
            s=4 + 120 * share,
            color=colour,
            marker=MARKS[cell.baseline],
            clip_on=False,
            zorder=3,
        )
        upper.set_title(drawable(cell.name), fontsize=9, pad=12)  # a mark at 100 % reaches over the edge
        upper.text(
            4, 96, f"calibration error {percent(costs(cell).calibration_error)} %", fontsize=8, va="top"
        )
        lower.bar(100 * middle, 100 * share, width=90 / CALIBRATION_BINS, color=colour, alpha=0.7)
        lower.set_xlabel("chance that a class is given, %" if table.multi_label else "confidence, %")
        lower.set_xlim(0, 100)
        upper.set_ylim(0, 100)
    grid[0, 0].set_ylabel("given rightly, %" if table.multi_label else "accuracy, %")
    grid[1, 0].set_ylabel("% of answers")
    return figure
