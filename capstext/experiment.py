"""One run, whole: train, calibrate, test, save. What `capstext train` does, and every comparison."""

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capstext import cards, distributed, evaluation, runs, training
from capstext.errors import CapstextError, UsageError
from capstext.files import alone_in, write_json
from capstext.models.kinds import Solved
from capstext.preparation import Prepared
from capstext.rows import TextRows
from capstext.runs import CHECKPOINTS

SETTINGS = "settings.json"
# What may be different when a training goes on: where it runs, how often it saves, who watches.
FREE = {"training.device", "training.checkpoint_steps", "training.tensorboard"}


@dataclass(frozen=True)
class Tested:
    """What the model said about the rows of a test split, what was true, and how long it took."""

    judged: evaluation.Judged
    truth: Tensor
    seconds: float


@dataclass(frozen=True)
class Finished:
    """What a training leaves; `stopped_by` is the signal that ended it early, `diverged` why it broke off."""

    metrics: dict[str, Any]
    stopped_by: int | None = None
    diverged: str | None = None
    tested: dict[str, Tested] = field(default_factory=dict)


def train(
    prepared: Prepared,
    folder: Path,
    *,
    resume: bool = False,
    test: bool = True,
    keep: bool = True,
    command: str,
    report: training.Report = lambda step, steps, facts: None,
    warn: Callable[[str], None] = lambda message: None,
) -> Finished:
    """Train into `folder`. A run that is complete there is read, not repeated.

    Test rows are scored once, by the model that validation rows chose; with `test=False`, never. With
    `keep=False` the scores are all that is left.
    """
    if distributed.rank() == 0:
        runs.refuse_taken(folder, resume=resume)
    if (folder / runs.CHECKSUMS).exists():
        found = runs.load(folder)
        _refuse_changes(folder, found.config.as_dict(), runs.resolved(prepared.config).as_dict())
        training.discard_checkpoints(folder / CHECKPOINTS)
        return Finished(found.metrics)
    folder.mkdir(parents=True, exist_ok=True)
    # processes of one torchrun share the folder
    with alone_in(folder, doing="training") if distributed.rank() == 0 else nullcontext():
        _remember(prepared, folder)
        finished = _train(prepared, folder, resume=resume, test=test, report=report, warn=warn)
        if keep and finished.stopped_by is None and distributed.rank() == 0:
            _save(prepared, folder, finished.metrics, command=command)
        if finished.stopped_by is None and distributed.rank() == 0:
            training.discard_checkpoints(folder / CHECKPOINTS)
        return finished


def _train(
    prepared: Prepared,
    folder: Path,
    *,
    resume: bool,
    test: bool,
    report: training.Report,
    warn: Callable[[str], None],
) -> Finished:
    config, corpus, model, rows = prepared.config, prepared.corpus, prepared.model, prepared.rows
    truth = {name: split.targets() for name, split in rows.items()}
    tested: dict[str, Tested] = {}

    def scores(split: str, *, calibrate: bool = False) -> dict[str, Any]:
        started = time.monotonic()
        raw = evaluation.log_odds(model, rows[split])
        seconds = time.monotonic() - started
        if not raw.isfinite().all():
            raise FloatingPointError("the model gives scores that are no numbers")
        if calibrate:
            model.calibration.fit(raw, truth[split], multi_label=corpus.multi_label)
        if split.startswith("test"):
            judged = evaluation.judged(raw, truth[split], model=model, corpus=corpus)
            tested[split] = Tested(judged, truth[split], seconds)
        return evaluation.score(raw, truth[split], model=model, corpus=corpus)

    def validate(_: Any) -> dict[str, float]:
        # a threshold means something only for probabilities; the best class is the best one anyway
        found = scores("validation", calibrate=corpus.multi_label)
        return {
            "score": evaluation.chosen_score(found),
            "negative_log_likelihood": found["negative_log_likelihood"],
        }

    model.calibration.fit_prior(
        truth["train"].sum(dim=0), len(truth["train"]), multi_label=corpus.multi_label
    )
    started = time.monotonic()
    try:
        if isinstance(model.network, Solved):
            texts, seed = rows["train"], config.training.seed
            assert isinstance(texts, TextRows)
            model.network.solve(texts.ids, truth["train"], multi_label=corpus.multi_label, seed=seed)
            outcome = training.Outcome([validate(model)], best_step=0, stopped_by=None, diverged=None)
        else:
            outcome = training.fit(
                model,
                rows=rows["train"],
                validate=validate,
                loss=prepared.loss,
                config=config.training,
                folder=folder / CHECKPOINTS,
                resume=resume,
                report=report,
                warn=warn,
            )
    except training.Diverged:
        # from these checkpoints it would only diverge again, and the advice is to change a setting
        training.discard_checkpoints(folder / CHECKPOINTS)
        raise
    if outcome.stopped_by is not None:
        return Finished({}, stopped_by=outcome.stopped_by)
    seconds = time.monotonic() - started
    found = {
        "validation": scores("validation", calibrate=True),
        **{name: scores(name) for name in rows if test and name.startswith("test")},
        "history": outcome.history,
        "best_step": outcome.best_step,
        "seconds": round(seconds, 3),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "trained_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "torch_threads": torch.get_num_threads(),
    }
    return Finished(found, diverged=outcome.diverged, tested=tested)


def _save(prepared: Prepared, folder: Path, metrics: dict[str, Any], *, command: str) -> None:
    corpus = prepared.corpus
    runs.save(
        folder,
        model=prepared.model,
        tokenizer=prepared.tokenizer,
        config=prepared.config,
        classes=corpus.classes,
        multi_label=corpus.multi_label,
        metrics=metrics,
        card=cards.card(prepared.config, corpus, metrics, command=command),
    )


def _remember(prepared: Prepared, folder: Path) -> None:
    """Keep beside the checkpoints what they belong to; go on with the same settings and rows only."""
    path = folder / CHECKPOINTS / SETTINGS
    config, rows = runs.resolved(prepared.config).as_dict(), prepared.fingerprint()
    if path.exists():
        before = json.loads(path.read_text())
        _refuse_changes(folder, before["config"], config)
        if before["rows"] != rows:
            raise CapstextError(
                f"{folder}: was begun with other rows: the data have changed since; choose another --out"
            )
    elif distributed.rank() == 0:
        path.parent.mkdir(exist_ok=True)
        write_json(path, {"config": config, "rows": rows})


def _refuse_changes(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for section, settings in now.items():
        for key in sorted({**before.get(section, {}), **settings}, key=lambda key: (key != "name", key)):
            old, new = before.get(section, {}).get(key), settings.get(key)
            if old != new and f"{section}.{key}" not in FREE:
                raise UsageError(
                    f"{folder}: was begun with {section}.{key} {old}, not {new}; "
                    "resume with the same settings, or choose another --out"
                )
