"""`capstext train` and `evaluate` on bad input: one line, an exit code, and nothing made."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from answers import Answer
from small_runs import save_small_run

Command = Callable[..., Answer]
SMALL = ("--set", "embeddings.mode=random", "--set", "embeddings.dim=8", "--set", "model.filters=8")


def fails(answer: Answer, code: int, *parts: str) -> None:
    assert answer.code == code, answer
    last = answer.err.strip().splitlines()[-1]
    assert last.startswith("capstext: ")
    for part in parts:
        assert part in last
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("name", "content", "code", "parts"),
    [
        ("empty.csv", "", 1, ["empty.csv"]),
        ("header.csv", "text,label\n", 1, ["header.csv"]),
        ("one.csv", "text,label\na,x\nb,x\nc,x\n", 1, ["one.csv", "class"]),
        ("ragged.csv", "text,label\na,x\nb\nc,y\n", 1, ["ragged.csv:3"]),
        ("quote.csv", 'text,label\na,x\n"b,y\n', 1, ["quote.csv:3"]),
        ("bad.jsonl", '{"text": "a", "label": "x"}\n{"text": \n', 1, ["bad.jsonl:2"]),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_no_folder_is_made(
    name: str, content: str, code: int, parts: list[str], tmp_path: Path, command: Command
) -> None:
    (tmp_path / name).write_text(content)
    answer = command("train", "--data", tmp_path / name, "--out", tmp_path / "run", *SMALL)
    fails(answer, code, *parts)
    assert not (tmp_path / "run").exists()


def test_bytes_that_are_not_utf8_are_named_or_replaced(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "latin.csv"
    rows = "".join(f"fine film {n},good\ndull film {n},bad\n" for n in range(20))
    path.write_bytes(b"text,label\ncaf\xe9,good\n" + rows.encode())
    fails(
        command("train", "--data", path, "--out", tmp_path / "run", *SMALL),
        1,
        "latin.csv:2",
        "--errors replace",
    )
    answer = command(
        "train", "--data", path, "--out", tmp_path / "run", *SMALL, "--errors", "replace", "--dry-run"
    )
    assert answer.code == 0, answer.err
    assert "1" in answer.err


def test_a_missing_file_and_an_unknown_name_are_told_apart(tmp_path: Path, command: Command) -> None:
    fails(command("train", "--data", tmp_path / "no.csv", "--out", tmp_path / "run"), 1, "no.csv")
    answer = command("train", "--data", "trek", "--out", tmp_path / "run")
    assert answer.code != 0
    assert "did you mean trec" in answer.err
    assert not (tmp_path / "run").exists()


def test_a_missing_column_is_a_usage_error_with_the_columns_found(
    reviews: Path, tmp_path: Path, command: Command
) -> None:
    answer = command("train", "--data", reviews, "--out", tmp_path / "run", "--label-column", "topic")
    fails(answer, 2, "reviews.csv", "'topic'", "text, label")


def test_nothing_to_train_on_is_a_usage_error(command: Command) -> None:
    fails(command("train"), 2, "--data FILE")


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("training.epoch=3", "did you mean training.epochs?"),
        ("model.name=capsule-x", "unknown model 'capsule-x'"),
        ("routing.name=dinamic", "did you mean dynamic?"),
        ("loss.name=hinge", "'hinge'"),
        ("loss.wait=3", "wait"),
        ("embeddings.vectors=nowhere.bin", "nowhere.bin"),
        ("model.filters=0", "model.filters: 0"),
        ("model.capsules=-3", "model.capsules: -3"),
        ("model.ngram_sizes=[]", "model.ngram_sizes"),
        ("model.weights=half", "'half'"),
    ],
)
def test_a_wrong_setting_is_a_usage_error_and_makes_nothing(
    setting: str, part: str, reviews: Path, tmp_path: Path, command: Command
) -> None:
    answer = command("train", "--data", reviews, "--out", tmp_path / "run", "--set", setting)
    fails(answer, 2, part)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("setting", ["model.filters=0", "routing.name=dinamic", "loss.name=hinge"])
def test_a_wrong_setting_is_told_before_the_data_are_read(
    setting: str, tmp_path: Path, command: Command
) -> None:
    answer = command("train", "--data", tmp_path / "absent.csv", "--out", tmp_path / "run", "--set", setting)
    fails(answer, 2, setting.partition(".")[0])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_not_replaced_in_silence(
    reviews: Path, tmp_path: Path, command: Command
) -> None:
    wanted = ("--set", "training.device=cuda")
    fails(command("train", "--data", reviews, "--out", tmp_path / "run", *SMALL, *wanted), 2, "no GPU")


def test_a_file_in_the_place_of_the_folder_is_refused(
    reviews: Path, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "taken").write_text("mine")
    answer = command("train", "--data", reviews, "--out", tmp_path / "taken", *SMALL)
    fails(answer, 2, "taken: is a file")
    assert (tmp_path / "taken").read_text() == "mine"


def test_texts_that_are_cut_are_counted(reviews: Path, tmp_path: Path, command: Command) -> None:
    short = ("--set", "tokens.max_length=4", "--dry-run")
    answer = command("train", "--data", reviews, "--out", tmp_path / "run", *SMALL, *short)
    assert answer.code == 0, answer.err
    assert "of 97 texts are longer than 4 tokens and cut (tokens.max_length)" in answer.err


def test_a_vector_file_with_a_bad_line_is_named(reviews: Path, tmp_path: Path, command: Command) -> None:
    vectors = tmp_path / "words.txt"
    vectors.write_text("film 0.1 0.2 0.3\nfine 0.1 0.2\n")
    answer = command(
        *("train", "--data", reviews, "--out", tmp_path / "run", "--set", f"embeddings.vectors={vectors}")
    )
    fails(answer, 1, "words.txt:2")


def test_fewer_rows_than_folds_is_refused_before_training(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "few.csv"
    path.write_text("text,label\na b,x\nc d,y\ne f,x\ng h,y\n")
    answer = command("train", "--data", path, "--out", tmp_path / "run", *SMALL, "--set", "data.fold=0")
    fails(answer, 1, "fold")


def test_evaluate_names_labels_that_the_model_does_not_know(tmp_path: Path, command: Command) -> None:
    save_small_run(tmp_path / "run")
    data = tmp_path / "new.csv"
    data.write_text("text,label\na warm film,good\nthe plot is dull,bad\nwhat,strange\n")
    answer = command("evaluate", tmp_path / "run", "--data", data)
    assert answer.code == 0, answer.err
    assert "strange" in answer.err
    assert "2 rows" in answer.out
    row = next(line for line in answer.out.splitlines() if line.startswith("mixed"))
    assert "n/a" in row


def test_a_label_with_a_line_end_keeps_the_table_and_the_error_whole(
    tmp_path: Path, command: Command
) -> None:
    save_small_run(tmp_path / "run", classes=("bad", "go\nod\x1b[2J", "mixed"))
    data = tmp_path / "new.csv"
    data.write_text('text,label\na warm film,"go\nod\x1b[2J"\nthe plot is dull,bad\n')
    answer = command("evaluate", tmp_path / "run", "--data", data)
    assert answer.code == 0, answer.err
    assert sum(line.startswith("go od [2J ") for line in answer.out.splitlines()) == 2
    data.write_text('text,label\na warm film,"one\ntwo"\n')
    fails(command("evaluate", tmp_path / "run", "--data", data), 1, "new.csv", "one two (1)")


def test_a_run_whose_data_are_gone_asks_for_others(tmp_path: Path, command: Command) -> None:
    save_small_run(tmp_path / "run", data=tmp_path / "gone.csv")
    fails(command("evaluate", tmp_path / "run"), 1, "gone.csv", "--data")


@pytest.mark.parametrize("threshold", ["-0.1", "1.5"])
def test_evaluate_refuses_a_threshold_outside_0_to_1(
    threshold: str, tmp_path: Path, command: Command
) -> None:
    fails(command("evaluate", tmp_path, "--threshold", threshold), 2, "outside 0 to 1")


def test_evaluate_refuses_what_is_no_run(tmp_path: Path, command: Command) -> None:
    fails(command("evaluate", tmp_path / "absent", "--data", "mr"), 1, "absent")


def test_missing_data_are_told_before_transformers_is_loaded(tmp_path: Path) -> None:
    code = f"""import sys
sys.argv = ['capstext', 'train', '--data', '{tmp_path}/absent.csv']
from capstext.cli import main
try: main()
except SystemExit as ended: print(ended.code, 'transformers' in sys.modules)"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "1 False\n"


def test_verbose_shows_where_an_error_came_from() -> None:
    command = [sys.executable, "-m", "capstext", "-v", "train", "absent.yaml"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    assert ended.stderr.endswith("capstext: absent.yaml: no such config file\n")


def test_help_is_light() -> None:
    code = "import sys; sys.argv = ['capstext', '--help']\nfrom capstext.cli import app\n"
    code += "try: app()\nexcept SystemExit: pass\n"
    code += "print([m for m in ('torch', 'numpy', 'transformers', 'datasets', 'yaml') if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"
