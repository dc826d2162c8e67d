"""A comparison runs, stops, goes on and refuses, by its command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from answers import Answer

from capstext import config as settings
from capstext import evaluation
from capstext.comparison import grid, records, running, tasks

Command = Callable[..., Answer]
SMALL = {"filters": 8, "primary_capsules": 4, "capsules": 4, "dim": 4}
MODELS = {
    "capsule-a": {"model": {"name": "capsule-a", **SMALL}},
    "cnn": {"model": {"name": "cnn", "filters": 8}},
}


def comparison(folder: Path, reviews: Path, **changes: Any) -> Path:
    """A config beside a copy of the texts."""
    folder.mkdir(exist_ok=True)
    (folder / "reviews.csv").write_bytes(reviews.read_bytes())
    values = {
        "datasets": ["reviews.csv"],
        "settings": {"embeddings": {"mode": "random", "dim": 8}},
        "models": MODELS,
        "seeds": 2,
        "budget": {"epochs": 2},
    }
    path = folder / "compare.yaml"
    path.write_text(yaml.safe_dump(values | changes))
    return path


def fails(answer: Answer, code: int, *parts: str) -> None:
    assert answer.code == code, answer
    last = answer.err.strip().splitlines()[-1]
    assert last.startswith("capstext: ")
    for part in parts:
        assert part in last
    assert "Traceback" not in answer.err


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, reviews: Path) -> Path:
    """The folder of a comparison that was never stopped."""
    folder = tmp_path_factory.mktemp("finished")
    config = comparison(folder, reviews)
    answer = capstext("compare", config, "--out", folder / "out", "--json")
    assert answer.returncode == 0, answer.stderr
    assert {row["model"] for row in json.loads(answer.stdout)} == set(MODELS)
    return folder


def capstext(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "capstext", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_every_run_is_one_file_with_all_that_a_report_needs(finished: Path) -> None:
    found = list(records.load_all(finished / "out" / "runs"))
    assert [(run.model, run.seed) for run in found] == [(name, seed) for name in MODELS for seed in (0, 1)]
    for run in found:
        answers = run.answers["test"]
        assert run.tests["test"]["accuracy"] == pytest.approx(answers.right.mean())
        assert answers.labels.shape == (run.rows["test"], 2)
        assert run.epochs == 2
        assert run.seconds["all"] >= run.seconds["train"] > 0
        assert run.texts_per_second > 0
        assert run.parameters >= run.trained_parameters > 0
        assert run.versions["torch"]
    same_rows = {run.answers["test"].labels.tobytes() for run in found}
    assert len(same_rows) == 1
    assert not (finished / "out" / running.UNFINISHED).exists()


def test_going_on_makes_only_what_is_missing_and_the_same_again(
    finished: Path, tmp_path: Path, reviews: Path, command: Command
) -> None:
    config, out = comparison(tmp_path, reviews), tmp_path / "out"
    files = sorted((finished / "out" / "runs").rglob("*.json"))
    for file in files[1:]:
        target = out / file.relative_to(finished / "out")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    fails(command("compare", config, "--out", out), 1, "3 of 4 runs are made already", "--resume")
    kept = {file: file.stat().st_mtime_ns for file in (out / "runs").rglob("*.json")}
    answer = command("compare", config, "--out", out, "--resume")
    assert answer.code == 0, answer.err
    assert "1 to make, 3 made already" in answer.err
    assert all(file.stat().st_mtime_ns == when for file, when in kept.items())
    missing = files[0].relative_to(finished / "out")
    before, after = records.load(finished / "out" / missing), records.load(out / missing)
    assert before.tests == after.tests
    assert np.array_equal(
        before.answers["test"].probabilities, after.answers["test"].probabilities
    )  # to the last 255th


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=["term", "int", "kill"]
)
def test_a_stopped_comparison_goes_on_where_it_was(
    number: int, finished: Path, tmp_path: Path, reviews: Path
) -> None:
    """Its processes end too, and the interrupted training is not begun anew."""
    config, out = comparison(tmp_path, reviews, budget={"epochs": 2}), tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "capstext", "compare", config, "--out", out, "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: any((out / running.UNFINISHED).rglob("checkpoint-*")) or any(out.rglob("seed-*.json")))
    process.send_signal(number)
    _, messages = process.communicate(timeout=60)
    assert process.returncode in (128 + number, -number), messages
    assert "Traceback" not in messages
    wait_for(lambda: not processes_in(out))
    answer = capstext("compare", config, "--out", out, "--resume")
    assert answer.returncode == 0, answer.stderr
    for file in sorted((finished / "out" / "runs").rglob("*.json")):
        before, after = records.load(file), records.load(out / file.relative_to(finished / "out"))
        assert before.tests == after.tests, after.model


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def processes_in(folder: Path) -> list[str]:
    """Processes that hold a file below the folder open: the lock of an unfinished training."""
    found = []
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(descriptor).startswith(str(folder)):
                found.append(str(descriptor))
        except OSError:
            continue
    return found


def test_test_rows_are_scored_once_after_the_choice_and_in_a_trial_never(
    tmp_path: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    scored = evaluation.log_odds

    def watched(model: Any, rows: Any, **options: Any) -> Any:
        seen.append(len(rows))
        return scored(model, rows, **options)

    monkeypatch.setattr(evaluation, "log_odds", watched)
    (run, *_) = grid.load(comparison(tmp_path, reviews, budget={"epochs": 3}))
    # a validation split of its own size, to tell the two apart
    config = settings.changed(run.config(run.cell.config), {"data.validation": 0.2})
    for test in (True, False):
        seen.clear()
        task = tasks.Task(
            title="watched",
            cell=run.cell,
            config=config,
            file=tmp_path / f"{test}.json",
            unfinished=tmp_path / f"unfinished-{test}",
            run=run if test else None,
        )
        tasks.perform(task, report=lambda *_: None, warn=lambda _: None)
        validation, test_rows = seen[0], 24
        assert validation != test_rows
        assert seen == [validation] * (3 + 1) + [test_rows] * test  # three epochs, the calibration, the test


def test_the_best_trial_by_validation_decides_for_all_runs(
    tmp_path: Path, reviews: Path, command: Command
) -> None:
    search = {"training.learning_rate": [1e-9, 0.01]}
    config = comparison(
        tmp_path, reviews, models={"cnn": MODELS["cnn"]}, budget={"epochs": 2, "trials": 2}, search=search
    )
    answer = command("compare", config, "--out", tmp_path / "out", "--workers", "1")
    assert answer.code == 0, answer.err
    for run in records.load_all(tmp_path / "out" / "runs"):
        assert run.search is not None
        tried = {
            trial["settings"]["training.learning_rate"]: trial["validation"] for trial in run.search["tried"]
        }
        assert tried[0.01] > tried[1e-9]
        assert run.config["training"]["learning_rate"] == 0.01
    trials = [json.loads(path.read_text()) for path in (tmp_path / "out" / "trials").rglob("*.json")]
    assert len(trials) == 2
    assert not any("test" in trial for trial in trials)


def test_a_budget_in_seconds_becomes_epochs_by_the_pace_of_one(
    tmp_path: Path, reviews: Path, command: Command
) -> None:
    config = comparison(tmp_path, reviews, models={"cnn": MODELS["cnn"]}, seeds=1, budget={"seconds": 2})
    assert command("compare", config, "--out", tmp_path / "out", "--workers", "1").code == 0
    (run,) = records.load_all(tmp_path / "out" / "runs")
    (pace,) = (tmp_path / "out" / "trials").rglob("pace.json")
    assert run.config["training"]["epochs"] == max(1, int(2 / json.loads(pace.read_text())["seconds"]))


def test_a_run_that_fails_stops_no_other(tmp_path: Path, reviews: Path, command: Command) -> None:
    wild = {"model": MODELS["cnn"]["model"], "tokens": {"kind": "sentencepiece", "vocabulary": 4}}
    config = comparison(tmp_path, reviews, models={"wild": wild, **MODELS}, seeds=1)
    answer = command("compare", config, "--out", tmp_path / "out")
    fails(answer, 1, "1 of 3 runs failed", "subwords")
    assert {run.model for run in records.load_all(tmp_path / "out" / "runs")} == set(MODELS)


@pytest.mark.parametrize(
    ("changes", "code", "parts"),
    [
        ({"models": ["cnnn"]}, 2, ["unknown model 'cnnn'"]),
        ({"datasets": ["nowhere"]}, 2, ["nowhere"]),
        ({"datasets": ["missing.csv"]}, 1, ["missing.csv"]),
        ({"embeddings": {"lost": {"vectors": "lost.vec"}}, "settings": {}}, 2, ["lost.vec"]),
        ({"models": {"cnn": {"loss": {"name": "margn"}}}}, 2, ["margn"]),
        ({"folds": 20}, 2, ["seeds and folds"]),
    ],
    ids=["model", "data set", "file", "vectors", "loss", "protocol"],
)
def test_a_mistake_is_named_before_anything_is_trained(
    changes: dict, code: int, parts: list[str], tmp_path: Path, reviews: Path, command: Command
) -> None:
    answer = command("compare", comparison(tmp_path, reviews, **changes), "--out", tmp_path / "out")
    fails(answer, code, *parts)
    assert not (tmp_path / "out").exists()


def test_a_fold_without_a_class_is_named_before_anything_is_trained(tmp_path: Path, command: Command) -> None:
    rows = [f"a text of number {n},common" for n in range(30)] + ["a text of its own,rare"]
    (tmp_path / "few.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    path = tmp_path / "compare.yaml"
    path.write_text(
        yaml.safe_dump({"datasets": ["few.csv"], "models": ["cnn"], "folds": 3, "budget": {"epochs": 1}})
    )
    fails(command("compare", path, "--out", tmp_path / "out"), 1, "few", "rare", "fold")
    assert not (tmp_path / "out").exists()


def test_a_finished_run_of_other_settings_is_kept_and_named(
    finished: Path, tmp_path: Path, reviews: Path, command: Command
) -> None:
    before = {file: file.read_bytes() for file in (finished / "out" / "runs").rglob("*.json")}
    config = comparison(tmp_path, reviews, budget={"epochs": 7})
    answer = command("compare", config, "--out", finished / "out", "--resume")
    fails(answer, 1, "seed-0.json", "training.epochs 2, not 7")
    assert before == {file: file.read_bytes() for file in (finished / "out" / "runs").rglob("*.json")}


def test_a_run_file_cut_in_half_is_named_before_anything_is_trained(
    finished: Path, tmp_path: Path, reviews: Path, command: Command
) -> None:
    file = next((finished / "out" / "runs").rglob("*.json"))
    cut = tmp_path / "out" / file.relative_to(finished / "out")
    cut.parent.mkdir(parents=True)
    cut.write_bytes(file.read_bytes()[:500])
    answer = command("compare", comparison(tmp_path, reviews), "--out", tmp_path / "out", "--resume")
    fails(answer, 1, str(cut), "cut short")


def test_the_report_is_made_again_from_the_run_files_alone(
    finished: Path, tmp_path: Path, command: Command
) -> None:
    for file in (finished / "out" / "runs").rglob("*.json"):
        target = tmp_path / file.relative_to(finished / "out")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    answer = command("compare", "--report", "--out", tmp_path)
    assert answer.code == 0, answer.err
    for name in ("results.json", "results.md", "results.html"):
        assert (tmp_path / name).read_bytes() == (finished / "out" / name).read_bytes(), name


def test_a_dry_run_shows_the_runs_and_makes_nothing(tmp_path: Path, reviews: Path, command: Command) -> None:
    answer = command("compare", comparison(tmp_path, reviews), "--out", tmp_path / "out", "--dry-run")
    assert "4 runs in all" in answer.out
    assert not (tmp_path / "out").exists()
