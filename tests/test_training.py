"""Training from the command: what a stop, a crash or a fault leaves behind, and that nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from answers import Answer
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from capstext import checkpoints, config, experiment, training
from capstext.preparation import prepare

SMALL = [
    *("--set", "embeddings.mode=random", "--set", "embeddings.dim=12", "--set", "model.name=capsule-a"),
    *("--set", "model.filters=8", "--set", "model.capsules=4", "--set", "model.primary_capsules=4"),
    *("--set", "training.batch_size=4", "--set", "training.checkpoint_steps=3", "--set", "training.epochs=4"),
    *("--set", "training.learning_rate=0.01", "--set", "embeddings.dropout=0"),
    *("--set", "routing.softmax=leaky-sampled", "--set", "training.patience=4"),
]


def start(reviews: Path, out: Path, *more: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "capstext",
        "train",
        "--data",
        str(reviews),
        "--out",
        str(out),
        *SMALL,
        *more,
    ]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for_checkpoint(process: "subprocess.Popen[str]", out: Path, step: int) -> None:
    deadline = time.monotonic() + 120
    while not any(int(path.name[5:]) >= step for path in (out / "checkpoints").glob("step-*")):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.002)


def finish(reviews: Path, out: Path, *more: str) -> str:
    process = start(reviews, out, *more)
    _, messages = process.communicate(timeout=200)
    assert process.returncode == 0, messages
    return messages


def scores(run: Path) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads((run / "metrics.json").read_text())
    del metrics["seconds"]
    return metrics


@pytest.fixture(scope="module")
def unbroken(reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    finish(reviews, out)
    return out


def assert_equal_to_the_bit(run: Path, unbroken: Path) -> None:
    assert (run / "model.safetensors").read_bytes() == (unbroken / "model.safetensors").read_bytes()
    assert scores(run) == scores(unbroken)
    assert not (run / "checkpoints").exists()


@pytest.mark.parametrize("step", [6, 25, 60])
def test_a_killed_training_resumes_to_the_same_bits(
    step: int, reviews: Path, unbroken: Path, tmp_path: Path
) -> None:
    process = start(reviews, tmp_path / "run")
    wait_for_checkpoint(process, tmp_path / "run", step)
    process.kill()
    process.communicate()
    assert not (tmp_path / "run" / "checksums.json").exists()
    finish(reviews, tmp_path / "run", "--resume")
    assert_equal_to_the_bit(tmp_path / "run", unbroken)


def test_a_broken_newest_checkpoint_is_passed_over_and_named(
    reviews: Path, unbroken: Path, tmp_path: Path
) -> None:
    process = start(reviews, tmp_path / "run")
    wait_for_checkpoint(process, tmp_path / "run", 30)
    process.kill()
    process.communicate()
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    content = bytearray((newest / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (newest / "model.safetensors").write_bytes(content)
    messages = finish(reviews, tmp_path / "run", "--resume")
    assert f"{newest / 'model.safetensors'}: not as it was written; going back to step-" in messages
    assert_equal_to_the_bit(tmp_path / "run", unbroken)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_the_step_and_tells_how_to_go_on(
    number: signal.Signals, code: int, reviews: Path, unbroken: Path, tmp_path: Path
) -> None:
    process = start(reviews, tmp_path / "run")
    wait_for_checkpoint(process, tmp_path / "run", 10)
    process.send_signal(number)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == code
    assert "go on with --resume" in messages
    finish(reviews, tmp_path / "run", "--resume")
    assert_equal_to_the_bit(tmp_path / "run", unbroken)


@pytest.mark.parametrize("optimiser", ["adam", "adadelta"])
def test_a_norm_limit_holds_and_resumes_to_the_same_bits(
    optimiser: str, reviews: Path, tmp_path: Path
) -> None:
    def settings(limit: float | None) -> list[str]:
        # the learning rate is that of Adadelta; a limit of .2 is reached at once
        return [
            *(setting for setting in SMALL[1::2] if not setting.startswith("model.")),
            *(f"training.optimiser={optimiser}", "training.learning_rate=1.0", f"data.name={reviews}"),
            *("model.name=cnn", "model.filters=8", f"model.norm_limit={'null' if limit is None else limit}"),
        ]

    def train(name: str, limit: float | None, **options: Any) -> Path:
        prepared = prepare(config.load(None, overrides=settings(limit)))
        experiment.train(prepared, tmp_path / name, command="", **options)
        return tmp_path / name

    def norms(run: Path) -> torch.Tensor:
        return load_file(run / "model.safetensors")["network.output.weight"].norm(dim=1)

    def die(step: int, *_: object) -> None:
        if step >= 31:
            raise RuntimeError("dead")

    whole = train("whole", 0.2)
    assert (norms(whole) <= 0.2 + 1e-6).all()
    assert (norms(train("free", None)) > 0.3).all()
    with pytest.raises(RuntimeError, match="dead"):
        train("broken", 0.2, report=die)
    assert max((tmp_path / "broken" / "checkpoints").glob("step-*")).name == "step-00000030"
    assert_equal_to_the_bit(train("broken", 0.2, resume=True), whole)


def test_a_second_training_into_the_same_folder_is_refused(reviews: Path, tmp_path: Path) -> None:
    first = start(reviews, tmp_path / "run")
    wait_for_checkpoint(first, tmp_path / "run", 3)
    first.send_signal(signal.SIGSTOP)
    second = start(reviews, tmp_path / "run", "--resume")
    _, messages = second.communicate(timeout=60)
    first.kill()
    first.communicate()
    assert second.returncode == 1
    assert "another training is writing there" in messages


def test_a_finished_run_is_kept(unbroken: Path, reviews: Path, command: Callable[..., Answer]) -> None:
    before = (unbroken / "model.safetensors").read_bytes()
    answer = command("train", "--data", reviews, "--out", unbroken, *SMALL)
    assert answer.code == 1
    assert "holds a finished run" in answer.err
    again = command("train", "--data", reviews, "--out", unbroken, *SMALL, "--resume")
    assert again.code == 0
    assert "test" in again.out
    assert (unbroken / "model.safetensors").read_bytes() == before


def test_a_finished_run_is_not_taken_for_one_with_other_settings(
    unbroken: Path, reviews: Path, command: Callable[..., Answer]
) -> None:
    changed = ("--set", "model.filters=16")
    answer = command("train", "--data", reviews, "--out", unbroken, *SMALL, *changed, "--resume")
    assert answer.code == 2
    assert "was begun with model.filters 8, not 16" in answer.err
    assert answer.out == ""


@pytest.fixture
def unfinished(reviews: Path, tmp_path: Path) -> Path:
    """A run whose process died in its second epoch."""

    def die(step: int, *_: object) -> None:
        if step >= 30:
            raise RuntimeError("dead")

    settings = [*SMALL[1::2], f"data.name={reviews}"]
    with pytest.raises(RuntimeError, match="dead"):
        experiment.train(
            prepare(config.load(None, overrides=settings)), tmp_path / "run", command="", report=die
        )
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("training.learning_rate=0.1", "training.learning_rate 0.01, not 0.1"),
        ("model.name=capsule-b", "model.name capsule-a, not capsule-b"),
        ("routing.iterations=7", "routing.iterations 3, not 7"),
    ],
)
def test_resuming_with_another_setting_is_refused(
    setting: str, told: str, unfinished: Path, reviews: Path, command: Callable[..., Answer]
) -> None:
    again = ("train", "--data", reviews, "--out", unfinished, *SMALL, "--set", setting, "--resume")
    answer = command(*again)
    assert answer.code == 2
    assert f"was begun with {told}" in answer.err
    assert len(list((unfinished / "checkpoints").glob("step-*"))) > 1


def test_resuming_with_other_rows_is_refused(
    unfinished: Path, reviews: Path, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    settings = unfinished / "checkpoints" / "settings.json"
    changed = tmp_path / "reviews.csv"
    changed.write_text(reviews.read_text() + "one more fine film,good\n")
    settings.write_text(settings.read_text().replace(str(reviews), str(changed)))
    answer = command("train", "--data", changed, "--out", unfinished, *SMALL, "--resume")
    assert answer.code == 1
    assert "the data have changed" in answer.err


def test_how_often_checkpoints_are_saved_may_change(
    unfinished: Path, reviews: Path, command: Callable[..., Answer]
) -> None:
    seldom = ("--set", "training.checkpoint_steps=1000")
    answer = command("train", "--data", reviews, "--out", unfinished, *SMALL, *seldom, "--resume")
    assert answer.code == 0, answer.err
    assert not (unfinished / "checkpoints").exists()


def test_a_full_disk_is_one_line_and_the_last_checkpoint_stands(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Answer]
) -> None:
    def full(tensors: object, path: Path, **options: object) -> None:
        if "step-00000030" in str(path):
            Path(path).write_bytes(b"the beginning")
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        save_file(tensors, path, **options)

    monkeypatch.setattr("capstext.checkpoints.save_file", full)
    answer = command("train", "--data", reviews, "--out", tmp_path / "run", *SMALL)
    assert answer.code == 1
    assert "No space left on device" in answer.err.strip().splitlines()[-1]
    assert "Traceback" not in answer.err
    checkpoint, complaints = checkpoints.newest_good(tmp_path / "run" / "checkpoints")
    assert checkpoint is not None
    assert (checkpoint.name, complaints) == ("step-00000027", [])
    monkeypatch.undo()
    assert command("train", "--data", reviews, "--out", tmp_path / "run", *SMALL, "--resume").code == 0
    assert len(scores(tmp_path / "run")["history"]) == 4


def test_two_processes_may_start_into_a_new_folder(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --resume: what the first of them has begun is no other run."""
    prepared = prepare(config.load(None, overrides=[*SMALL[1::2], f"data.name={reviews}"]))
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("capstext.experiment._train", lambda *_, **__: experiment.Finished({}))
    assert experiment.train(prepared, tmp_path / "run", command="").stopped_by is None


def poison_loss(monkeypatch: pytest.MonkeyPatch, *, step: int) -> None:
    """Let the loss be no number from a step on."""
    honest = training._Trainer.compute_loss

    def poisoned(self: training._Trainer, *arguments: Any, **keywords: Any) -> Any:
        loss = honest(self, *arguments, **keywords)
        return loss * float("nan") if self.state.global_step >= step - 1 else loss

    monkeypatch.setattr(training._Trainer, "compute_loss", poisoned)


def test_a_loss_that_is_no_number_stops_the_first_epoch_with_advice_that_can_be_followed(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Answer]
) -> None:
    poison_loss(monkeypatch, step=8)
    run = ("train", "--data", reviews, "--out", tmp_path / "run", *SMALL)
    answer = command(*run)
    assert answer.code == 1
    last = answer.err.strip().splitlines()[-1]
    assert "no longer a finite number at step 8 (learning rate" in last
    advice = last[last.index("--set training.learning_rate=") :].split(",")[0].split()
    monkeypatch.undo()
    again = command(*run, *advice)
    assert again.code == 0, again.err


def test_a_loss_that_is_no_number_leaves_the_best_model(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Answer]
) -> None:
    poison_loss(monkeypatch, step=60)
    answer = command("train", "--data", reviews, "--out", tmp_path / "run", *SMALL)
    assert answer.code == 1
    assert "at step 60" in answer.err
    assert f"the best model so far is in {tmp_path / 'run'}" in answer.err
    assert len(scores(tmp_path / "run")["history"]) == 2
    assert "NaN" not in (tmp_path / "run" / "metrics.json").read_text()
    assert command("classify", tmp_path / "run", reviews).code == 0


def test_validation_scores_that_are_no_numbers_stop_training_with_advice(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Answer]
) -> None:
    monkeypatch.setattr(
        "capstext.evaluation.log_odds", lambda model, rows, **_: torch.full((len(rows), 2), torch.nan)
    )
    answer = command("train", "--data", reviews, "--out", tmp_path / "run", *SMALL)
    assert answer.code == 1
    assert "no longer a finite number at step 25" in answer.err.strip().splitlines()[-1]
    assert "Traceback" not in answer.err


def test_patience_begins_with_the_first_score_above_0(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Answer]
) -> None:
    monkeypatch.setattr("capstext.evaluation.chosen_score", lambda scores: 0.0)
    impatient = ("--set", "training.patience=1")
    answer = command("train", "--data", reviews, "--out", tmp_path / "run", *SMALL, *impatient)
    assert answer.code == 0, answer.err
    assert scores(tmp_path / "run")["best_step"] == 100


def test_what_was_learned_is_right(unbroken: Path) -> None:
    assert scores(unbroken)["test"]["accuracy"] > 0.9
    assert len(scores(unbroken)["history"]) <= 4


def test_a_dry_run_shows_the_plan_and_makes_nothing(
    reviews: Path, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    answer = command("train", "--data", reviews, "--out", tmp_path / "run", *SMALL, "--dry-run")
    assert answer.code == 0
    for part in ("learning_rate: 0.01", "trained_parameters:", "an_epoch: 25", "train: 97", "- bad"):
        assert part in answer.out
    assert not (tmp_path / "run").exists()


def test_torchrun_trains_in_two_processes(reviews: Path, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"),
        *(
            "-m",
            "capstext",
            "train",
            "--data",
            str(reviews),
            "--out",
            str(tmp_path / "run"),
            *SMALL,
            "--resume",
        ),
    ]
    finished = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert finished.returncode == 0, finished.stderr
    assert scores(tmp_path / "run")["test"]["accuracy"] > 0.9
    assert finished.stdout.count("saved in") == 1
