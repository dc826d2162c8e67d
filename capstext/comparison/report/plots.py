"""Pictures of a table as SVG: scores of all runs, scores against costs, confusion, reliability."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from capstext.comparison.report import wording
from capstext.comparison.report.cells import Table
from capstext.comparison.report.costs import costs
from capstext.comparison.report.drawing import (
    BASELINES,
    CAPSULES,
    GREY,
    MARKS,
    PUBLISHED,
    STYLE,
    as_svg,
    colour_of,
    names_of,
    new_figure,
)
from capstext.comparison.report.error_plots import confusion_figure, reliability_figure
from capstext.comparison.report.label_placing import place_labels
from capstext.comparison.report.wording import METRIC_NAMES


def pictures(table: Table) -> dict[str, tuple[bytes, str]]:
    """All pictures of a table by what they show: the file's bytes, and a description."""
    metric, where = METRIC_NAMES[table.main], f"{table.dataset}, {table.split}, {table.protocol}"
    drawn: dict[str, tuple[Callable[[Table], Any], str]] = {
        "scores": (_scores, f"{metric} of all runs and their means, with published figures: {where}"),
        "time": (lambda one: _against_cost(one, "time"), f"{metric} against training time: {where}"),
        "parameters": (
            lambda one: _against_cost(one, "parameters"),
            f"{metric} against the number of trained parameters: {where}",
        ),
        "confusion": (confusion_figure, f"confusion of the best capsules and the best baseline: {where}"),
        "reliability": (reliability_figure, f"accuracy by confidence of the same two models: {where}"),
    }
    import matplotlib

    found = {}
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # shown as an empty box
        for what, (draw, shows) in drawn.items():
            figure = draw(table)
            if figure is not None:
                found[what] = as_svg(figure), shows
    return found


def _legend(table: Table, *, published: bool = False, single: bool = False) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=MARKS[baseline], linestyle="", label=label)
        for colour, baseline, label in ((CAPSULES, False, "capsules"), (BASELINES, True, "baselines"))
        if any(cell.baseline == baseline for cell in table.cells)
    ]
    if single:
        style: dict[str, Any] = {"color": GREY, "alpha": 0.6, "markersize": 3, "linestyle": ""}
        handles.append(Line2D([], [], marker="o", label="single runs", **style))
    if published:
        style = {"markerfacecolor": "none", "markeredgecolor": PUBLISHED, "linestyle": ""}
        handles.append(Line2D([], [], marker="D", markersize=5, label="published", **style))
    return handles


def _scores(table: Table) -> Any:
    figure = new_figure(7.6, 1.1 + 0.34 * len(table.cells))
    axes = figure.subplots()
    published = False
    for row, cell in enumerate(table.cells):
        score, colour = cell.scores[table.main], colour_of(cell)
        values = 100 * np.array(score.values)
        # the runs in a band above and below the mean, in the order of folds and seeds
        spread = np.linspace(-0.22, 0.22, len(values)) if len(values) > 1 else np.zeros(1)
        axes.scatter(values, row + spread, s=9, color=colour, alpha=0.4, linewidths=0)
        axes.errorbar(
            100 * score.mean,
            row,
            xerr=None if score.std is None else 100 * score.std,
            color=colour,
            marker=MARKS[cell.baseline],
            markersize=6,
            capsize=3,
            linewidth=1.4,
        )
        for figure_value in score.published:
            published = True
            axes.plot(
                100 * figure_value.value,
                row,
                marker="D",
                markersize=6,
                markerfacecolor="none",
                markeredgecolor=PUBLISHED,
                zorder=3,
            )
    axes.set_yticks(range(len(table.cells)), names_of(table))
    axes.set_ylim(len(table.cells) - 0.5, -0.5)  # the best on top
    axes.set_xlabel(f"{METRIC_NAMES[table.main]}, %")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    handles = _legend(table, published=published, single=True)
    figure.legend(handles=handles, frameon=False, loc="outside upper right", ncols=4, fontsize=8)
    return figure


def _against_cost(table: Table, what: str) -> Any:
    cells, names, costly = [], [], []
    for cell, name in zip(table.cells, names_of(table), strict=True):
        cost = costs(cell)
        spent = cost.training_seconds if what == "time" else cost.trained_parameters
        if spent:  # a logarithm needs more than nothing
            cells.append(cell)
            names.append(name)
            costly.append(spent)
    if not cells:
        return None
    from matplotlib.ticker import LogLocator, NullLocator

    shown = wording.seconds if what == "time" else wording.count
    figure = new_figure(7.6, 4.6)
    axes = figure.subplots()
    points = []
    for cell, spent in zip(cells, costly, strict=True):
        points.append((spent, 100 * cell.scores[table.main].mean))
        axes.plot(*points[-1], color=colour_of(cell), marker=MARKS[cell.baseline], markersize=6, linestyle="")
    axes.set_xscale("log")
    axes.margins(x=0.16, y=0.14)
    steps: tuple[float, ...] = (1, 3)
    if max(costly) < 30 * min(costly):  # a narrow range may hold no power of ten at all
        steps = (1, 1.5, 2, 3, 5, 7)
        axes.set_xlim(min(costly) / 1.8, max(costly) * 1.8)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(lambda value, _: re.sub(r"\.0(?!\d)", "", shown(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    titles = {"time": "training time", "parameters": "trained parameters"}
    axes.set_xlabel(f"{titles[what]} (logarithmic)")
    axes.set_ylabel(f"{METRIC_NAMES[table.main]}, %")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    figure.legend(handles=_legend(table), frameon=False, loc="outside upper right", ncols=2, fontsize=8)
    place_labels(axes, points, names, fontsize=8)
    return figure
