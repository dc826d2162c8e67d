"""A comparison that cannot be made, or would spoil another, says so in one line before it trains."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from answers import Answer
from made_records import made

from capstext import config as settings
from capstext import files, runs
from capstext.cli import compare as command_module
from capstext.comparison import grid, records, running, tasks, workers
from capstext.errors import CapstextError, UsageError

Command = Callable[..., Answer]
CNN = {"model": {"name": "cnn", "filters": 8}}


def config_file(folder: Path, reviews: Path, **changes: Any) -> Path:
    """A comparison of one small model on two seeds, beside a copy of the texts."""
    folder.mkdir(exist_ok=True)
    (folder / "reviews.csv").write_bytes(reviews.read_bytes())
    values = {
        "datasets": ["reviews.csv"],
        "settings": {"embeddings": {"mode": "random", "dim": 8}},
        "models": {"cnn": CNN},
        "seeds": 2,
        "budget": {"epochs": 1},
    }
    path = folder / "compare.yaml"
    path.write_text(yaml.safe_dump(values | changes))
    return path


def finished_run(config: Path, out: Path, number: int = 0, **changes: object) -> Path:
    """The file of one of the runs, as if it had been made; answers and scores are made up."""
    planned = grid.load(config)[number]
    found = made(
        dataset=planned.cell.dataset,
        model=planned.cell.model,
        embeddings=planned.cell.embeddings,
        protocol=planned.cell.protocol,
        seed=planned.seed,
        fold=planned.fold,
        config=runs.resolved(planned.config(planned.cell.config)).as_dict(),
    )
    path = out / running.RUNS / planned.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(json.loads(json.dumps(found.as_dict())) | changes))
    return path


def fails(answer: Answer, code: int, *parts: str) -> None:
    """With the code, and one last line that has all parts."""
    assert answer.code == code, answer
    assert "Traceback" not in answer.err
    last = answer.err.strip().splitlines()[-1]
    assert last.startswith("capstext: ")
    for part in parts:
        assert part in last


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """No process is begun; what would have been performed."""
    asked: list[object] = []

    class Idle(workers.Workers):
        def perform(self, wanted: Any) -> list[workers.Failure]:
            asked.extend(wanted)
            return [workers.Failure("none", "nothing is trained in this test")]

    monkeypatch.setattr(running, "Workers", Idle)
    return asked


@pytest.mark.parametrize(
    "options",
    [["--data", "x.csv"], ["--only", "mr"], ["--seeds", 2], ["--folds", 2], ["--resume"], ["--dry-run"]],
    ids=lambda options: options[0],
)
def test_a_report_refuses_what_would_not_change_it(
    options: list[object], tmp_path: Path, command: Command
) -> None:
    fails(command("compare", "--report", "--out", tmp_path, *options), 2, "--report takes --out")


def test_a_quiet_report_names_no_files(tmp_path: Path, command: Command, monkeypatch: Any) -> None:
    def written(found: object, out: Path) -> list[Path]:
        (out / "results.md").write_text("# Results\n")
        return [out / "results.md"]

    monkeypatch.setattr("capstext.comparison.report.writing.write", written)
    records.save(tmp_path / "runs" / "a.json", made())
    loud, quiet = (command("compare", "--report", "--out", tmp_path, *more) for more in ([], ["-q"]))
    assert loud.out == quiet.out == "# Results\n"
    assert (loud.err.strip(), quiet.err) == (str(tmp_path / "results.md"), "")


@pytest.mark.parametrize("text", ["", "not JSON", '{"format": 1'], ids=["empty", "text", "cut"])
def test_a_report_names_a_file_that_is_no_run(text: str, tmp_path: Path, command: Command) -> None:
    records.save(tmp_path / "runs" / "a.json", made())
    (tmp_path / "runs" / "b.json").write_text(text)
    fails(command("compare", "--report", "--out", tmp_path), 1, "b.json", "damaged or cut short", "remove it")


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), SystemExit(143)], ids=["ctrl-c", "sigterm"])
def test_who_stops_a_comparison_is_told_how_to_go_on(
    ending: BaseException, tmp_path: Path, reviews: Path, command: Command, monkeypatch: Any
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise ending

    monkeypatch.setattr(running, "compare", stopped)
    answer = command("compare", config_file(tmp_path, reviews), "--out", tmp_path / "out")
    assert answer.code == (143 if isinstance(ending, SystemExit) else 130)
    assert "finished runs are kept; go on with --resume" in answer.err


def test_time_spent_on_trials_counts_as_training(
    tmp_path: Path, reviews: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run, *_) = grid.load(config_file(tmp_path, reviews))
    path = tmp_path / "trial-0.json"
    path.write_text(json.dumps({"seconds": 30.0, "validation": 0.5}))
    task = tasks.Task(title="trial", cell=run.cell, config=run.cell.config, file=path, unfinished=tmp_path)
    progress = command_module._Progress(quiet=False)
    progress.begin("search", [task], 0)
    progress.done(task, None)
    progress.workers = 2
    progress.summary(60.0)
    assert "training took 25.0 % of the processes' time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "code", "parts"),
    [
        ({"models": ["cnnn"]}, 2, ["unknown model 'cnnn'; did you mean cnn"]),
        ({"datasets": ["trek"]}, 2, ["unknown data set 'trek'"]),
        ({"datasets": [""]}, 2, ["'' is no name"]),
        (
            {"settings": {}, "embeddings": {"lost": {"vectors": "lost.vec"}}},
            2,
            ["lost.vec", "reviews.csv, cnn"],
        ),
        (
            {"settings": {}, "embeddings": {"bert": {"mode": "frozen"}}},
            2,
            ["reviews.csv, cnn, bert: ", "embeddings.encoder must name"],
        ),
        (
            {"models": {"cnn": {**CNN, "tokens": {"kind": "huggingface"}}}},
            2,
            ["reviews.csv, cnn, default: ", "tokens.source must name"],
        ),
        (
            {"budget": {"epochs": 1, "trials": 2}, "search": {"training.warmup": [0.1, "1e-1"]}},
            2,
            ["reviews.csv, cnn, default: ", "two combinations are the same settings"],
        ),
        ({"models": {"cnn": {"loss": "margn"}}}, 2, ["reviews.csv, cnn, default: ", "margn"]),
    ],
    ids=["model", "data set", "no name", "vectors", "encoder", "tokenizer", "search", "loss"],
)
def test_a_mistake_is_told_with_whose_it_is_and_nothing_is_made(
    changes: dict[str, Any], code: int, parts: list[str], tmp_path: Path, reviews: Path, command: Command
) -> None:
    config = config_file(tmp_path, reviews, **changes)
    fails(command("compare", config, "--out", tmp_path / "out"), code, *parts)
    assert not (tmp_path / "out").exists()


def test_data_without_a_name_is_not_the_folder_at_hand(
    tmp_path: Path, reviews: Path, command: Command, monkeypatch: Any
) -> None:
    config = config_file(tmp_path, reviews)
    monkeypatch.chdir(tmp_path)
    fails(command("compare", config, "--data", "", "--out", tmp_path / "out"), 2, "unknown data set ''")


def test_a_fold_without_a_class_is_named(tmp_path: Path, command: Command) -> None:
    rows = [f"a text of number {n},common" for n in range(30)] + ["a text of its own,rare"]
    (tmp_path / "few.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    config = tmp_path / "compare.yaml"
    values = {"datasets": ["few.csv"], "models": ["cnn"], "folds": 3, "budget": {"epochs": 1}}
    config.write_text(yaml.safe_dump(values))
    fails(command("compare", config, "--out", tmp_path / "out"), 1, "few", "rare", "fold")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("resume", [[], ["--resume"]], ids=["anew", "resume"])
def test_out_may_not_be_a_file(resume: list[str], tmp_path: Path, reviews: Path, command: Command) -> None:
    out = tmp_path / "out"
    out.write_text("precious")
    fails(command("compare", config_file(tmp_path, reviews), "--out", out, *resume), 2, str(out), "is a file")
    assert out.read_text() == "precious"


@pytest.mark.parametrize("name", ["runs", "trials", ".unfinished", "runs/reviews.csv"])
def test_a_file_where_a_folder_should_be_is_named_before_anything_is_trained(
    name: str, tmp_path: Path, reviews: Path, command: Command, untrained: list[object]
) -> None:
    """A run is no use when it is made and cannot be written."""
    blocked = tmp_path / "out" / name
    blocked.parent.mkdir(parents=True)
    blocked.write_text("precious")
    config = config_file(tmp_path, reviews)
    fails(command("compare", config, "--out", tmp_path / "out"), 1, f"{blocked}: is a file", "--out")
    assert blocked.read_text() == "precious"
    assert not untrained


def test_a_folder_that_takes_no_files_is_named_before_the_data_are_read(
    tmp_path: Path, reviews: Path, command: Command, monkeypatch: Any
) -> None:
    def refused(path: object, mode: int) -> bool:  # root may write everywhere, so it is asked in vain
        return Path(str(path)) != tmp_path / "locked"

    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(os, "access", refused)
    config = config_file(tmp_path, reviews)
    answer = command("compare", config, "--out", tmp_path / "locked" / "out")
    fails(answer, 1, f"{tmp_path / 'locked'}: takes no files")
    assert "checking" not in answer.err


def test_a_failed_write_in_a_process_is_one_line(tmp_path: Path, reviews: Path, monkeypatch: Any) -> None:
    (run, *_) = grid.load(config_file(tmp_path, reviews))
    file = tmp_path / "run.json"
    task = tasks.Task(title="a run", cell=run.cell, config=run.cell.config, file=file, unfinished=tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "checkpoint")

    monkeypatch.setattr(tasks, "perform", full)
    assert workers._performed(task) == workers.Failure("a run", "checkpoint: No space left on device")


def test_an_unfinished_comparison_is_gone_on_with_only_when_asked(
    tmp_path: Path, reviews: Path, command: Command, untrained: list[object]
) -> None:
    config, out = config_file(tmp_path, reviews), tmp_path / "out"
    (out / running.UNFINISHED / "runs" / "reviews.csv").mkdir(parents=True)
    fails(command("compare", config, "--out", out), 1, "holds an unfinished comparison", "--resume")
    assert not untrained
    command("compare", config, "--out", out, "--resume")
    assert len(untrained) == 2


@pytest.mark.parametrize("resume", [[], ["--resume"]], ids=["anew", "resume"])
def test_a_second_comparison_into_a_folder_is_refused_at_once(
    resume: list[str], tmp_path: Path, reviews: Path, command: Command, untrained: list[object]
) -> None:
    config, out = config_file(tmp_path, reviews), tmp_path / "out"
    waiting = out / running.UNFINISHED / "runs" / "reviews.csv"
    waiting.mkdir(parents=True)
    with files.alone_in(out / running.UNFINISHED, doing="comparison"):
        answer = command("compare", config, "--out", out, *resume)
    fails(answer, 1, "another comparison is writing there")
    assert "checking" not in answer.err
    assert waiting.is_dir()
    assert not untrained


def test_a_run_made_by_another_while_the_data_were_read_is_looked_at_too(
    tmp_path: Path, reviews: Path, untrained: list[object], monkeypatch: Any
) -> None:
    config, out = config_file(tmp_path, reviews), tmp_path / "out"
    other = config_file(tmp_path / "other", reviews, budget={"epochs": 7})
    made_meanwhile: list[Path] = []
    monkeypatch.setattr(running, "check_settings", lambda *_: made_meanwhile.append(finished_run(other, out)))
    options: Any = {name: lambda *_: None for name in ("say", "begin", "tell", "done")}
    with pytest.raises(CapstextError, match=r"seed-0\.json: .*training\.epochs 7, not 1; it is kept"):
        running.compare(grid.load(config), out, workers=1, resume=True, **options)
    assert made_meanwhile[0].exists()
    assert not untrained


def test_a_finished_comparison_clears_up_while_it_is_still_alone(
    tmp_path: Path, reviews: Path, monkeypatch: Any
) -> None:
    """Or it would clear away what the next one has begun."""
    config, out = config_file(tmp_path, reviews), tmp_path / "out"
    for number in (0, 1):
        finished_run(config, out, number)
    monkeypatch.setattr(running, "check_settings", lambda *_: None)
    alone: list[bool] = []

    def removed(folder: Path, **_: object) -> None:
        with open(folder / files.LOCK) as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone.append(True)

    monkeypatch.setattr(running.shutil, "rmtree", removed)
    options: Any = {name: lambda *_: None for name in ("say", "begin", "tell", "done")}
    assert running.compare(grid.load(config), out, workers=1, resume=True, **options) == []
    assert alone == [True]


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"format": 2, "capstext": "9.1"}, ["written by capstext 9.1 in format 2", "remove it"]),
        ({"format": None}, ["not the file of a run", "move it elsewhere"]),
        ({"seconds": {}}, ["damaged: prepare is missing"]),
        ({"training": {"epochs": 2}}, ["training.epochs 2, not 1", "it is kept"]),
        ({"training": {"epoches": 2}}, ["a finished run of another version", "training.epoches"]),
    ],
    ids=["format", "no format", "damaged", "other settings", "other version"],
)
@pytest.mark.usefixtures("untrained")
def test_a_run_file_that_does_not_fit_is_named_and_kept(
    change: dict[str, Any], parts: list[str], tmp_path: Path, reviews: Path, command: Command
) -> None:
    config, out = config_file(tmp_path, reviews), tmp_path / "out"
    path = finished_run(config, out, **{key: change[key] for key in change if key != "training"})
    values = json.loads(path.read_text())
    values["config"]["training"] |= change.get("training", {})
    path.write_text(json.dumps(values))
    before = path.read_bytes()
    fails(command("compare", config, "--out", out, "--resume"), 1, str(path), *parts)
    fails(command("compare", config, "--out", out), 1, "1 of 2 runs are made already", "--resume")
    assert path.read_bytes() == before


def test_a_run_file_cut_in_half_is_named_and_kept(tmp_path: Path, reviews: Path, command: Command) -> None:
    config, out = config_file(tmp_path, reviews), tmp_path / "out"
    path = finished_run(config, out)
    half = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(half)
    fails(command("compare", config, "--out", out, "--resume"), 1, str(path), "cut short")
    assert path.read_bytes() == half


def test_a_trial_of_other_settings_is_named_and_kept(
    tmp_path: Path, reviews: Path, command: Command, untrained: list[object]
) -> None:
    search = {"training.warmup": [0.1, 0.2]}
    config = config_file(tmp_path, reviews, budget={"epochs": 1, "trials": 2}, search=search)
    (run, *_) = grid.load(config)
    path = tmp_path / "out" / running.TRIALS / run.cell.folder / "trial-0.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"validation": 0.5, "seconds": 1, "config": {}}))
    before = path.read_bytes()
    fails(command("compare", config, "--out", tmp_path / "out"), 1, "trial-0.json", "other settings")
    assert path.read_bytes() == before
    assert not untrained


def test_a_run_from_before_a_setting_had_a_name_had_its_default(tmp_path: Path, reviews: Path) -> None:
    config, out = config_file(tmp_path, reviews), tmp_path / "out"
    path = finished_run(config, out)
    values = json.loads(path.read_text())
    del values["config"]["training"]["patience"]
    path.write_text(json.dumps(values))
    running.check_finished(grid.load(config), running.Place(out), resume=True)
    values["config"]["training"]["patience"] = 7 + settings.parse({}).training.patience
    path.write_text(json.dumps(values))
    with pytest.raises(CapstextError, match=r"training\.patience"):
        running.check_finished(grid.load(config), running.Place(out), resume=True)


def test_a_finished_task_leaves_its_file_alone(tmp_path: Path, reviews: Path, monkeypatch: Any) -> None:
    """No model is written on the way, and none of it stays."""
    monkeypatch.setattr(runs, "save", lambda *_, **__: pytest.fail("a model was written"))
    (run, *_) = grid.load(config_file(tmp_path, reviews))
    task = tasks.Task(
        title="run",
        cell=run.cell,
        config=run.config(run.cell.config),
        file=tmp_path / "left" / "run.json",
        unfinished=tmp_path / "left" / "unfinished",
        run=run,
    )
    tasks.perform(task, report=lambda *_: None, warn=lambda _: None)
    assert list((tmp_path / "left").iterdir()) == [task.file]


@pytest.mark.parametrize("option", ["seeds", "folds"])
def test_more_runs_than_anybody_waits_for_are_refused(option: str, tmp_path: Path, reviews: Path) -> None:
    path = config_file(tmp_path, reviews)
    with pytest.raises(UsageError, match="1001 is too many; give up to 1000"):
        grid.load(path, **{option: 1001})  # type: ignore[arg-type]
