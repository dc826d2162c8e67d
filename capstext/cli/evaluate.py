"""`capstext evaluate`: how good a trained model is on labelled texts."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from capstext.cli.answers import printable
from capstext.cli.progress import Progress
from capstext.cli.train import summary
from capstext.data.lines import ErrorPolicy
from capstext.errors import UsageError

EXAMPLES = """\b
Examples:
  capstext evaluate runs/demo                            the test rows of its own data
  capstext evaluate runs/demo --data held-out.csv --json
  capstext evaluate runs/reuters --split test_multilabel --threshold 0.4
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(evaluate)


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[
        str | None, typer.Option(help="Labelled texts, or a known name  [default: the data of the run]")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which rows  [default: test, or all of a file]")] = None,
    threshold: Annotated[float, typer.Option(help="Score from which a label holds (several labels).")] = 0.5,
    text_column: Annotated[str | None, typer.Option(help="Column of the texts  [default: guessed]")] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of the classes  [default: guessed]")
    ] = None,
    errors: Annotated[
        ErrorPolicy, typer.Option(help="What to do about bytes that are not UTF-8.")
    ] = "strict",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Pass over rows that cannot be read, and count them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All scores as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Nothing but results and errors.")] = False,
) -> None:
    """Score a model: accuracy, precision, recall and F1, a class at a time, confusion, calibration."""
    if not 0 <= threshold <= 1:
        raise UsageError(f"--threshold {threshold}: outside 0 to 1")
    from capstext import runs

    loaded = runs.load(run)
    from capstext import preparation
    from capstext.evaluation import log_odds, score

    progress = Progress(quiet=quiet)
    corpus, split, rows = preparation.held_out(
        loaded,
        data=data,
        split=split,
        text_column=text_column,
        label_column=label_column,
        errors=errors,
        skip_bad=skip_bad,
        say=progress.say,
    )
    found = score(
        log_odds(loaded.model, rows), rows.targets(), model=loaded.model, corpus=corpus, threshold=threshold
    )
    if as_json:
        typer.echo(
            json.dumps({"run": str(run), "data": corpus.name, "split": split, **found}, ensure_ascii=False)
        )
    else:
        typer.echo(_table(f"{corpus.name}, {split}", found))


def _table(name: str, scores: dict[str, Any]) -> str:
    labels = [printable(label) for label in scores["per_class"]]
    width = max(5, *map(len, labels))
    lines = [summary(name, scores), "", f"{'class':<{width}}  precision  recall     f1  examples"]
    for label, row in zip(labels, scores["per_class"].values(), strict=True):
        cells = (_cell(row["precision"], 9), _cell(row["recall"], 6), _cell(row["f1"], 5))
        lines.append(f"{label:<{width}}  {'  '.join(cells)}  {row['support']:>8,}")
    if not scores["multi_label"] and len(scores["per_class"]) <= 20:
        lines += ["", "confusion (a row for each true class, a column for each prediction)"]
        cell = max(len(f"{count:,}") for row in scores["confusion"] for count in row)
        for label, row in zip(labels, scores["confusion"], strict=True):
            lines.append(f"{label:<{width}}  {'  '.join(f'{count:>{cell},}' for count in row)}")
    return "\n".join(lines)


def _cell(value: float | None, width: int) -> str:
    return f"{'n/a' if value is None else f'{100 * value:.1f}':>{width}}"
