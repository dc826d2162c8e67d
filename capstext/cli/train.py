"""`capstext train`: from a config or a file of labelled texts to a model."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capstext.cli.progress import Progress
from capstext.data.lines import ErrorPolicy
from capstext.errors import CapstextError, UsageError

if TYPE_CHECKING:
    from capstext.preparation import Prepared

EXAMPLES = """\b
Examples:
  capstext train --data reviews.csv --out runs/reviews
  capstext train configs/demo.yaml --out runs/demo
  capstext train configs/demo.yaml --set model.name=capsule-a --set training.epochs=5
  capstext train configs/demo.yaml --out runs/demo --resume     go on after a stop
  torchrun --standalone --nproc-per-node 2 -m capstext train configs/demo.yaml --resume
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(train)


def train(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="A YAML file; configs/ has examples.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Labelled texts: CSV, TSV, JSONL, a folder by class, a known name or a hub id."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder  [default: runs/DATA-MODEL]")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change one setting; may be repeated.")
    ] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of the texts  [default: guessed]")] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of the classes  [default: guessed]")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last good checkpoint, if there is one.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show settings, counts and sizes, and stop.")
    ] = False,
    errors: Annotated[
        ErrorPolicy, typer.Option(help="What to do about bytes that are not UTF-8.")
    ] = "strict",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Pass over rows that cannot be read, and count them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Scores as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Nothing but results and errors.")] = False,
) -> None:
    """Train a classifier and save it as a run folder."""
    if config is None and data is None:
        raise UsageError("nothing to train on; give a config file or --data FILE (capstext train --help)")
    from capstext import config as settings

    chosen = settings.load(config, overrides=_overrides(set_ or [], data, text_column, label_column))
    folder = out or Path("runs") / f"{Path(chosen.data.name).stem}-{chosen.model.name}"
    from capstext import distributed

    first = distributed.rank() == 0
    progress = Progress(quiet=quiet or not first)
    progress.say("loading torch")
    from capstext import runs
    from capstext.preparation import prepare

    if first and not dry_run:
        runs.refuse_taken(folder, resume=resume)
    prepared = prepare(chosen, errors=errors, skip_bad=skip_bad, say=progress.say, count=progress.count)
    if dry_run:
        typer.echo(_plan(prepared, folder))
        return
    progress.say("loading transformers")
    from capstext import experiment

    try:
        finished = experiment.train(
            prepared,
            folder,
            resume=resume,
            command=shlex.join(["capstext", *sys.argv[1:]]),
            report=progress.report,
            warn=progress.warn,
        )
    finally:
        progress.close()
    if finished.stopped_by is not None:
        progress.say(f"stopped; the last step is saved in {folder}; go on with --resume")
        raise typer.Exit(128 + finished.stopped_by)
    if first:
        _show(finished.metrics, folder, as_json=as_json)
    if finished.diverged is not None:
        raise CapstextError(f"{finished.diverged}; the best model so far is in {folder}")


def _overrides(
    given: list[str], data: str | None, text_column: str | None, label_column: str | None
) -> list[str]:
    named = {"data.name": data, "data.text_column": text_column, "data.label_column": label_column}
    return [f"{key}={json.dumps(value)}" for key, value in named.items() if value is not None] + given


def _plan(prepared: "Prepared", folder: Path) -> str:
    """What would be done, for people and for YAML readers."""
    import yaml

    from capstext.models.kinds import Solved

    config = prepared.config
    rows = {name: len(split) for name, split in prepared.rows.items()}
    parameters = list(prepared.model.parameters())
    solved = isinstance(prepared.model.network, Solved)
    epoch = 0 if solved else -(-rows["train"] // (config.training.batch_size or 1))
    return yaml.safe_dump(
        {
            "config": config.as_dict(),
            "data": {"found": prepared.corpus.origin, "rows": rows, "classes": list(prepared.corpus.classes)},
            "parameters": sum(each.numel() for each in parameters),
            "trained_parameters": sum(each.numel() for each in parameters if each.requires_grad),
            "steps": {"an_epoch": epoch, "at_most": epoch * config.training.epochs},
            "run_folder": str(folder),
        },
        sort_keys=False,
        allow_unicode=True,
    ).strip()


def _show(metrics: dict[str, Any], folder: Path, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"run": str(folder), **metrics}, ensure_ascii=False))
        return
    for name, scores in metrics.items():
        if name == "validation" or name.startswith("test"):
            typer.echo(summary(name, scores))
    typer.echo(f"saved in {folder}")


def summary(name: str, scores: dict[str, Any]) -> str:
    """One line of scores."""
    parts = [f"accuracy {100 * scores['accuracy']:.1f} %"]
    if scores["multi_label"]:
        parts = [
            f"micro-F1 {_percent(scores['micro']['f1'])}",
            f"samples-F1 {_percent(scores['samples']['f1'])}",
            f"exact match {_percent(scores['exact_match'])}",
        ]
    parts += [
        f"macro-F1 {_percent(scores['macro']['f1'])}",
        f"calibration error {_percent(scores['expected_calibration_error'])}",
    ]
    return f"{name} ({scores['rows']:,} rows): {', '.join(parts)}"


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"
