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
from conftest import Answer

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


def test_numbers_that_overflow_stop_training_with_advice(
    reviews: Path, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    out = tmp_path / "run"
    answer = command("train", "--data", reviews, "--out", out, *SMALL, "--set", "training.learning_rate=1e3",
                     "--set", "training.clip=1e30", "--set", "loss.name=cross-entropy",
                     "--set", "training.warmup=0", "--set", "embeddings.dropout=0")  # fmt: skip
    assert answer.code in (0, 1)
    if answer.code == 1:
        assert "no longer a finite number at step" in answer.err
        assert "--set training.learning_rate=" in answer.err


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
