"""What one process of a comparison does at a time: a run, which leaves a record, or a trial, which leaves a
validation score and never sees a test row."""

import gc
import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit, softmax

from capstext import experiment, runs
from capstext.comparison import records
from capstext.comparison.grid import Cell, Planned
from capstext.comparison.records import Answers, Record
from capstext.config import Config
from capstext.errors import CapstextError
from capstext.evaluation import chosen_score
from capstext.experiment import Finished, Tested
from capstext.files import write_json
from capstext.memory import Memory
from capstext.preparation import Prepared, prepare
from capstext.training import Report
from capstext.version import VERSION

# What the runs of a process share: the data set, its tokens, its vectors.
_memory = Memory(most=3)
PACKAGES = ("torch", "transformers", "datasets", "scikit-learn", "tokenizers")
THRESHOLD = 0.5


@dataclass(frozen=True)
class Task:
    """Settings to train with, the file that is left, and the folder where an unfinished training waits."""

    title: str
    cell: Cell
    config: Config
    file: Path
    unfinished: Path
    run: Planned | None = None  # none: a trial
    search: dict[str, Any] | None = None


class Stopped(CapstextError):
    """A signal ended the training; its last step is saved."""


def perform(
    task: Task,
    *,
    report: Report,
    warn: Callable[[str], None],
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Train, and leave the file whole; an unfinished training of the same settings is gone on with."""
    if stopping():
        raise Stopped(f"{task.title}: not begun")
    _forget_peak_memory()
    started = time.monotonic()
    interrupted = task.unfinished.exists()
    prepared = prepare(task.config, memory=_memory)
    if stopping():
        raise Stopped(f"{task.title}: not begun")
    ready = time.monotonic()
    finished = experiment.train(
        prepared,
        task.unfinished,
        resume=True,
        test=task.run is not None,
        keep=False,
        command="capstext compare",
        report=report,
        warn=warn,
    )
    if finished.stopped_by is not None:
        raise Stopped(f"{task.title}: stopped; go on with --resume")
    if finished.diverged is not None:
        warn(f"{task.title}: {finished.diverged}; its best epoch counts")
    seconds = {"prepare": ready - started, "train": finished.metrics["seconds"]}
    if task.run is None:
        _save_trial(task, finished)
    else:
        seconds["all"] = time.monotonic() - started
        rounded = {name: round(value, 3) for name, value in seconds.items()}
        records.save(task.file, _record(task, prepared, finished, rounded, interrupted=interrupted))
    shutil.rmtree(task.unfinished)
    gc.collect()


class Trial(NamedTuple):
    """What a trial leaves."""

    validation: float
    seconds: float


def read_trial(path: Path, config: Config) -> Trial | None:
    """A finished trial with these settings, if there is one; one with others is named."""
    if not path.exists():
        return None
    try:
        values = json.loads(path.read_bytes())
        trial, tried = Trial(float(values["validation"]), float(values["seconds"])), values["config"]
    except (ValueError, KeyError, TypeError):
        raise CapstextError(f"{path}: damaged or cut short; remove it, and the trial is made again") from None
    if tried != runs.resolved(config).as_dict():
        raise CapstextError(f"{path}: a trial of other settings; choose another --out, or remove it")
    return trial


def _save_trial(task: Task, finished: Finished) -> None:
    task.file.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        task.file,
        {
            "capstext": VERSION,
            "config": runs.resolved(task.config).as_dict(),
            "validation": chosen_score(finished.metrics["validation"]),
            "seconds": finished.metrics["seconds"],
        },
    )


def _record(
    task: Task, prepared: Prepared, finished: Finished, seconds: dict[str, float], *, interrupted: bool
) -> Record:
    assert task.run is not None
    metrics, cell = finished.metrics, task.cell
    history = metrics["history"]
    best = next((entry for entry in history if entry.get("step") == metrics["best_step"]), history[-1])
    scored = sum(len(tested.truth) for tested in finished.tested.values())
    return Record(
        dataset=cell.dataset,
        model=cell.model,
        embeddings=cell.embeddings,
        protocol=cell.protocol,
        family=cell.family,
        seed=task.run.seed,
        fold=task.run.fold,
        config=runs.resolved(task.config).as_dict(),
        search=task.search,
        classes=prepared.corpus.classes,
        multi_label=prepared.corpus.multi_label,
        rows={name: len(rows) for name, rows in prepared.rows.items()},
        validation=metrics["validation"],
        tests={name: metrics[name] for name in finished.tested},
        answers={name: _answers(tested) for name, tested in finished.tested.items()},
        epochs=len(history),
        best_epoch=round(best.get("epoch", 0)),
        seconds=seconds,
        texts_per_second=round(scored / sum(tested.seconds for tested in finished.tested.values()), 1),
        parameters=metrics["parameters"],
        trained_parameters=metrics["trained_parameters"],
        peak_memory=_peak_memory(),
        device=str(prepared.model.calibration.prior.device),
        versions={name: version(name) for name in PACKAGES},
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        interrupted=interrupted,
    )


def _answers(tested: Tested) -> Answers:
    """As the metrics take them: the best class, or every class over the threshold."""
    log_odds = tested.judged.log_odds.to(torch.float64).numpy()
    if tested.judged.multi_label:
        probabilities = expit(log_odds)
        predicted = probabilities >= THRESHOLD
    else:
        probabilities = softmax(log_odds, axis=1)
        predicted = np.eye(log_odds.shape[1], dtype=bool)[log_odds.argmax(axis=1)]
    return Answers(
        predicted, tested.truth.numpy().astype(bool), np.rint(255 * probabilities).astype(np.uint8)
    )


def _forget_peak_memory() -> None:
    """Let the process count anew: it makes many runs. Linux only."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int | None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    return next(
        (1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), None
    )
