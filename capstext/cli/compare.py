"""`capstext compare`: many models under one budget, over seeds or folds, with tests of significance."""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capstext.cli.answers import printable
from capstext.errors import CapstextError, UsageError

if TYPE_CHECKING:
    from capstext.comparison.grid import Planned
    from capstext.comparison.tasks import Task
    from capstext.comparison.workers import Failure, News

EXAMPLES = """\b
Examples:
  capstext compare configs/compare/quick.yaml --out /tmp/quick    minutes: see how it goes
  capstext compare configs/compare/benchmarks.yaml --only mr      every model, the same ten folds
  capstext compare configs/compare/quick.yaml --data my.csv       which model suits my texts?
  capstext compare configs/compare/benchmarks.yaml --resume       go on after a stop, or add models
  capstext compare --report                                       tables, plots and page from the run files
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(compare)


def compare(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="[CONFIG]", help="A YAML file; configs/compare/ has examples."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Your own labelled texts, or a known name, instead of the config's data sets."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where run files and reports go.")] = Path("reports"),
    seeds: Annotated[int | None, typer.Option(min=1, help="So many seeds, on the data's own split.")] = None,
    folds: Annotated[int | None, typer.Option(min=2, help="So many folds, over all rows.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this data set, model or embeddings; may be repeated."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on: finished runs are kept, the others are made.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Only make the report again, from the run files under --out.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes side by side  [default: one a core; with a GPU 1]")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the runs, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Nothing but results and errors.")] = False,
) -> None:
    """Compare models on data sets: the same splits, the same budget, mean and deviation, paired tests."""
    if report:
        if config is not None or data or only or seeds or folds or resume or dry_run:
            raise UsageError("--report takes --out, --json and -q alone: it reads all run files under --out")
        _report(out, as_json=as_json, quiet=quiet)
        return
    if config is None:
        raise UsageError("nothing to compare; give a config file, or --report (capstext compare --help)")
    progress = _Progress(quiet=quiet)
    progress.say("loading torch")
    from capstext.comparison import grid

    plan = grid.load(config, data=data or (), seeds=seeds, folds=folds, only=only or ())
    if dry_run:
        typer.echo(_plan(plan, out))
        return
    import torch

    from capstext.comparison.running import compare as run

    progress.workers = workers or (1 if torch.cuda.is_available() else os.cpu_count() or 1)
    started = time.monotonic()
    try:
        failures = run(
            plan,
            out,
            workers=progress.workers,
            resume=resume,
            say=progress.say,
            begin=progress.begin,
            tell=progress.tell,
            done=progress.done,
        )
    except (KeyboardInterrupt, SystemExit):
        progress.say("stopped: finished runs are kept; go on with --resume")
        raise
    finally:
        progress.close()
    progress.summary(time.monotonic() - started)
    _report(out, as_json=as_json, quiet=quiet)
    if failures:
        raise CapstextError(f"{len(failures)} of {len(plan)} runs failed: {failures[0].reason}")


class _Progress:
    """On stderr: a bar with the time left on a terminal, a line a run elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.workers = 1
        self.bar: Any = None
        self.made = 0
        self.trained = 0.0  # seconds, of all processes

    def say(self, message: str) -> None:
        if self.quiet:
            return
        if self.bar is not None and not self.bar.disable:
            self.bar.write(printable(message), file=sys.stderr)
        else:
            typer.echo(printable(message), err=True)

    def begin(self, stage: str, tasks: Sequence["Task"], finished: int) -> None:
        from tqdm import tqdm

        from capstext.comparison.time_left import TimeLeft

        self.close()
        already = f", {finished} made already" if finished else ""
        self.say(f"{stage}: {len(tasks)} to make{already}, {self.workers} side by side")
        self.time_left = TimeLeft([task.cell for task in tasks], workers=self.workers)
        self.made, self.count, self.started = 0, len(tasks), time.monotonic()
        self.bar = tqdm(
            total=len(tasks),
            desc=stage,
            bar_format="{desc} {percentage:3.0f}%|{bar}| {postfix} [{elapsed} gone]",
            disable=self.quiet or not sys.stderr.isatty(),
        )

    def tell(self, news: "News") -> None:
        if news.kind == "warning":
            self.say(f"capstext: {news.value}")
        else:
            self.time_left.share(news.title, news.value)
            self._show()

    def done(self, task: "Task", failure: "Failure | None") -> None:
        self.made += 1
        seconds, outcome = self._outcome(task, failure)
        self.time_left.end(task.title, task.cell, seconds)
        self._show()
        self.say(f"{self.made}/{self.count} {task.title}: {outcome}{self._left()}")

    def _outcome(self, task: "Task", failure: "Failure | None") -> tuple[float, str]:
        if failure is not None:
            return 0.0, f"FAILED: {failure.reason}"
        values = json.loads(task.file.read_bytes())
        if task.run is None:
            trained = took = values["seconds"]
            score = values["validation"]
        else:
            trained, took = values["seconds"]["train"], values["seconds"]["all"]
            validation = values["validation"]
            score = validation["micro"]["f1"] if validation["multi_label"] else validation["accuracy"]
        self.trained += trained
        return took, f"validation {100 * (score or 0):.2f} %, {took:.0f} s"

    def _left(self) -> str:
        seconds = self.time_left.seconds()
        return "" if seconds is None else f"; {_duration(seconds)} left"

    def _show(self) -> None:
        if not self.bar.disable:
            self.bar.set_postfix_str(f"{self.made} of {self.count}{self._left()}", refresh=False)
            self.bar.update(min(self.made + self.time_left.done, self.count) - self.bar.n)

    def summary(self, seconds: float) -> None:
        if self.trained:
            share = self.trained / (seconds * self.workers)
            self.say(
                f"done in {_duration(seconds)}; training took {100 * share:.1f} % of the processes' time"
            )

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _plan(plan: Sequence["Planned"], out: Path) -> str:
    from capstext.comparison.running import Place, cells

    place = Place(out)
    lines = []
    for cell in cells(plan):
        runs = [planned for planned in plan if planned.cell.folder == cell.folder]
        made = sum(place.run(planned).exists() for planned in runs)
        trials = f", {len(cell.choices)} trials" if cell.choices else ""
        lines.append(f"{cell}: {len(runs)} runs ({cell.protocol}){trials}, {made} made")
    return "\n".join([*lines, f"{len(plan)} runs in all"])


def _report(out: Path, *, as_json: bool, quiet: bool) -> None:
    from capstext.comparison import records
    from capstext.comparison.running import RUNS

    found = list(records.load_all(out / RUNS))
    if not found:
        raise CapstextError(f"{out / RUNS}: no finished runs to report on")
    from capstext.comparison.report.writing import write

    written = write(found, out)
    if as_json:
        typer.echo((out / "results.json").read_text().rstrip())
        return
    typer.echo((out / "results.md").read_text().rstrip())
    for path in () if quiet else written:
        typer.echo(path, err=True)
