"""`capstext bench`: speed as a ratio beside the alternative, measured in one run."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="For machines.")]
Repeats = Annotated[int, typer.Option(min=1, help="Measurements of which the median is taken.")]

bench_app = typer.Typer(
    help="How fast capstext is, beside other ways of doing the same; nothing else should run meanwhile.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    app.add_typer(bench_app, name="bench")


@bench_app.command()
def routing(
    compiled: Annotated[bool, typer.Option("--compiled", help="Also under torch.compile.")] = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Also documents of up to a million capsules.")
    ] = False,
    repeats: Repeats = 9,
    as_json: Json = False,
) -> None:
    """The routings beside built votes, and beside one matmul of the same arithmetic."""
    from capstext.benchmarks.routing import document_curve, routing_rows

    _show(routing_rows(repeats=repeats, compiled=compiled), as_json)
    if curve:
        _show(list(document_curve()), as_json)


@bench_app.command()
def train(repeats: Repeats = 7, as_json: Json = False) -> None:
    """A training step of Capsule-A and -B at the paper's shapes, beside the same model on built votes."""
    from capstext.benchmarks.training import training_steps

    _show(training_steps(repeats=repeats), as_json)


@bench_app.command()
def images(repeats: Repeats = 5, as_json: Json = False) -> None:
    """A training step of CapsNet at full size, and its capsule layer, beside routing as others write it."""
    from capstext.benchmarks.images import image_rows

    _show(image_rows(repeats=repeats), as_json)


@bench_app.command()
def classify(
    run: Annotated[
        Path | None, typer.Argument(help="A run folder  [default: an untrained Capsule-B]")
    ] = None,
    lines: Annotated[int, typer.Option(min=500, help="How many lines.")] = 20_000,
    as_json: Json = False,
) -> None:
    """Lines a second, beside batches in the order of the file and beside a line at a time."""
    from capstext.benchmarks.classifying import classify_rows, default_classifier, short_lines
    from capstext.classifier import Classifier

    classifier = default_classifier() if run is None else Classifier.load(run)
    _show(classify_rows(classifier, short_lines(lines)), as_json)


def _show(rows: Sequence[Any], as_json: bool) -> None:
    records = [dataclasses.asdict(row) for row in rows]
    if as_json:
        typer.echo(json.dumps(records))
        return
    columns = list(records[0])
    cells = [[_cell(name, record[name]) for name in columns] for record in records]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in [columns, *cells]:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.endswith("bytes"):
        return f"{value / 2**20:.2f} MiB"
    if name.endswith("seconds"):
        return f"{1e3 * value:.2f} ms"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
