import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import CLASSES, TEXTS, save_small_run

from capstext import Classifier

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    save_small_run(folder)
    return folder


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "several"
    save_small_run(folder, multi_label=True)
    return folder


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def rows(answer: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.out.splitlines()]


def shell(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "capstext", *map(str, arguments)], capture_output=True, check=False, **options
    )


def test_one_row_in_is_one_row_out_in_order(command: Command, run: Path, lines: Path) -> None:
    answer = command("classify", run, lines)
    assert (answer.code, answer.err) == (0, "")
    expected = Classifier.load(run).predict_proba(TEXTS)
    for number, (row, scores) in enumerate(zip(rows(answer), expected, strict=True), start=1):
        assert row == {
            "id": number,
            "label": CLASSES[scores.argmax()],
            "score": pytest.approx(scores.max(), abs=1e-5),
        }


def test_top_gives_the_best_classes_and_no_more_than_there_are(
    command: Command, run: Path, lines: Path
) -> None:
    two, many = (rows(command("classify", run, lines, "--top", count))[0]["top"] for count in (2, 99))
    assert len(two) == 2
    assert {item["label"] for item in many} == set(CLASSES)
    assert [item["score"] for item in many] == sorted((item["score"] for item in many), reverse=True)


@pytest.mark.parametrize(
    "wrong",
    [
        *(("--top", 0), ("--top", -1), ("--top", "two"), ("--threshold", 1.5), ("--threshold", -0.1)),
        *(
            ("--threshold", "nan"),
            ("--format", "xml"),
            ("--errors", "loud"),
            ("--device", "gpu"),
            ("--tpo", 3),
        ),
    ],
    ids=str,
)
def test_wrong_usage_is_exit_2_and_no_output(
    command: Command, run: Path, lines: Path, wrong: tuple[object, ...]
) -> None:
    answer = command("classify", run, lines, *wrong)
    assert answer.code == 2
    assert answer.out == ""
    assert str(wrong[0]) in answer.err
    assert "Traceback" not in answer.err


def test_a_threshold_leaves_unsure_texts_without_label(command: Command, run: Path, lines: Path) -> None:
    scores = Classifier.load(run).predict_proba(TEXTS).max(axis=1)
    threshold = float(sorted(scores)[1] + sorted(scores)[2]) / 2
    found = rows(command("classify", run, lines, "--threshold", threshold))
    assert [row["label"] is not None for row in found] == [score >= threshold for score in scores.tolist()]
    assert [row.get("note") == "unsure" for row in found] == [score < threshold for score in scores.tolist()]


def test_several_labels_come_as_lists(command: Command, several: Path, lines: Path) -> None:
    every = rows(command("classify", several, lines, "--threshold", 0))
    assert all(sorted(row["labels"]) == sorted(CLASSES) for row in every)
    assert all(row["scores"] == sorted(row["scores"], reverse=True) for row in every)
    none = rows(command("classify", several, lines, "--threshold", 1))
    assert all((row["labels"], row["scores"]) == ([], []) for row in none)
    default = rows(command("classify", several, lines))
    assert all(min(row["scores"], default=1) >= 0.5 for row in default)
    people = command("classify", several, lines, "--threshold", 1, "--format", "text")
    assert people.code == 0


def test_words_are_given_where_asked_for(command: Command, run: Path, lines: Path) -> None:
    answer = command("classify", run, lines, "--explain")
    for row, text in zip(rows(answer), TEXTS, strict=True):
        assert {item["word"] for item in row["words"]} <= set(text.split())
        parts = [abs(item["relevance"]) for item in row["words"]]
        assert parts == sorted(parts, reverse=True)


@pytest.mark.parametrize(("form", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_tables_have_a_header_and_read_back(
    command: Command, run: Path, lines: Path, form: str, delimiter: str
) -> None:
    answer = command("classify", run, lines, "--format", form, "--top", 2, "--explain")
    table = list(csv.DictReader(io.StringIO(answer.out), delimiter=delimiter))
    assert list(table[0]) == ["id", "label", "score", "top", "words", "note"]
    plain = rows(command("classify", run, lines))
    assert [(int(row["id"]), row["label"], float(row["score"])) for row in table] == [
        (row["id"], row["label"], row["score"]) for row in plain
    ]


def test_formulas_are_disarmed_where_asked_for(command: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,text\n=1+1,a film\n+2,a film\n-3,a film\n@x,a film\nplain,a film\n")
    ids = {}
    for option in ([], ["--quote-formulas"]):
        answer = command("classify", run, path, "--format", "csv", *option)
        ids[bool(option)] = [row["id"] for row in csv.DictReader(io.StringIO(answer.out))]
    assert ids[False] == ["=1+1", "+2", "-3", "@x", "plain"]
    assert ids[True] == ["'=1+1", "'+2", "'-3", "'@x", "plain"]


def test_text_for_people_is_aligned_and_cannot_steer_the_terminal(
    command: Command, run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("a \x1b[31mwarm film\n\nnothing happens\n")
    answer = command("classify", run, path, "--format", "text", "--explain")
    assert "\x1b" not in answer.out
    first, *_ = answer.out.splitlines()
    assert "a [31mwarm film" in first
    places = {line.index("%") for line in answer.out.splitlines() if "%" in line}
    assert len(places) == 1
    assert "(empty)" in answer.out


def test_a_terminal_gets_colours_unless_told_not_to(run: Path, lines: Path) -> None:
    for environment, coloured in ({}, True), ({"NO_COLOR": "1"}, False):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "capstext", "classify", str(run), str(lines)],
            stdout=slave,
            stderr=subprocess.PIPE,
            env={key: value for key, value in os.environ.items() if key != "NO_COLOR"} | environment,
        )
        assert process.wait(60) == 0
        os.close(slave)
        shown = os.read(master, 100_000).decode()
        os.close(master)
        assert "warm and funny" in shown
        assert ("\x1b[" in shown) == coloured


def test_blank_and_cut_texts_are_flagged_and_counted(command: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("a film\n\n   \n" + "film " * 100 + "\n" + "x" * 3_000_000 + "\n")
    answer = command("classify", run, path)
    found = rows(answer)
    assert [row.get("note") for row in found] == [None, "empty", "empty", "cut", "cut"]
    assert found[1]["score"] == pytest.approx(4 / 9, abs=1e-6)
    assert "2 × empty text" in answer.err
    assert "2 × text cut at 16 tokens" in answer.err
    assert command("classify", run, path, "-q").err == ""


@pytest.mark.parametrize(
    "content",
    ["a film\ndull plot", "a film\r\ndull plot\r\n", "\ufeffa film\ndull plot\n"],
    ids=["no final newline", "crlf", "bom"],
)
def test_line_ends_and_marks_make_no_difference(
    command: Command, run: Path, tmp_path: Path, content: str
) -> None:
    path, plain = tmp_path / "texts.txt", tmp_path / "plain.txt"
    path.write_bytes(content.encode())
    plain.write_bytes(b"a film\ndull plot\n")
    assert command("classify", run, path).out == command("classify", run, plain).out


@pytest.mark.parametrize("form", ["jsonl", "csv", "text"])
def test_an_empty_file_gives_nothing(command: Command, run: Path, tmp_path: Path, form: str) -> None:
    path = tmp_path / "texts.txt"
    path.touch()
    answer = command("classify", run, path, "--format", form)
    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_bytes_that_are_not_utf8_stop_with_their_line_or_are_replaced(
    command: Command, run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(b"a film\na \xff film\ndull\n")
    strict = command("classify", run, path)
    assert strict.code == 1
    assert f"{path}:2" in strict.err
    assert strict.err.count("\n") == 1
    assert [row["id"] for row in rows(strict)] == [1]
    replaced = command("classify", run, path, "--errors", "replace")
    assert (replaced.code, len(rows(replaced))) == (0, 3)
    assert "1 × character replaced" in replaced.err


def test_nul_and_lone_surrogates_are_replaced_and_counted(
    command: Command, run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a \\u0000 film"}\n{"text": "a \\ud800 film"}\n')
    answer = command("classify", run, path)
    assert (answer.code, len(rows(answer))) == (0, 2)
    assert "2 × character replaced" in answer.err


def test_an_id_that_is_no_number_makes_valid_json(command: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": NaN, "text": "a film"}\n{"id": 2.5, "text": "a film"}\n')
    assert [row["id"] for row in rows(command("classify", run, path))] == ["nan", 2.5]


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("rows.csv", "id,text\n1,a film\n2,too,many\n3,dull\n", 3),
        ("rows.tsv", "id\ttext\n1\ta film\n2\n3\tdull\n", 3),
        ("rows.jsonl", '{"id": 1, "text": "a film"}\n{"id": 2, "text":\n{"id": 3, "text": "dull"}\n', 2),
        ("rows.csv", 'id,text\n1,a film\n2,"open\n3,dull\n', 3),
    ],
    ids=["ragged csv", "ragged tsv", "bad json", "open quote"],
)
def test_bad_rows_are_named_or_skipped_and_counted(
    command: Command, run: Path, tmp_path: Path, name: str, content: str, line: int
) -> None:
    path = tmp_path / name
    path.write_text(content)
    strict = command("classify", run, path)
    assert (strict.code, strict.err.count("\n")) == (1, 1)
    assert f"{path}:{line}" in strict.err
    skipping = command("classify", run, path, "--skip-bad")
    assert skipping.code == 0
    assert [str(row["id"]) for row in rows(skipping)] == ["1", "3"]
    assert "1 × bad row skipped" in skipping.err
    assert f"{path}:{line}" in skipping.err


def test_a_missing_column_is_exit_2_with_those_found(command: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,review\n1,a film\n")
    answer = command("classify", run, path, "--text-column", "body")
    assert answer.code == 2
    assert "columns found: id, review" in answer.err
    assert rows(command("classify", run, path, "--text-column", "review"))[0]["id"] == "1"


def test_a_newline_inside_a_field_stays_one_row(command: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('id,text\na,"two\nlines"\nb,one\n')
    assert [row["id"] for row in rows(command("classify", run, path))] == ["a", "b"]


def test_a_folder_is_one_text_a_file(command: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, text in zip("cab", TEXTS, strict=False):
        (tmp_path / "in" / f"{name}.txt").write_text(text + "\nsecond line\n")
    assert [row["id"] for row in rows(command("classify", run, tmp_path / "in"))] == [
        "a.txt",
        "b.txt",
        "c.txt",
    ]


def test_several_inputs_are_told_apart(command: Command, run: Path, lines: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("a film\n")
    found = rows(command("classify", run, lines, other))
    assert [(row["file"], row["id"]) for row in found] == [
        *((str(lines), number) for number in range(1, 5)),
        (str(other), 1),
    ]


def test_a_missing_file_is_one_line_before_anything_is_answered(
    command: Command, run: Path, lines: Path
) -> None:
    answer = command("classify", run, lines, lines.with_name("none.txt"))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"capstext: no such file: {lines.with_name('none.txt')}\n"


def test_a_model_that_is_damaged_is_one_line(command: Command, tmp_path: Path, lines: Path) -> None:
    save_small_run(tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 4
    path.write_bytes(content)
    answer = command("classify", tmp_path / "run", lines)
    assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert answer.err.startswith(f"capstext: {path}: damaged")


def test_a_pickle_is_refused_as_a_model(command: Command, tmp_path: Path, lines: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"\x80\x04N.")
    answer = command("classify", tmp_path / "model.pt", lines)
    assert answer.code == 1
    assert "refused: pickle can run code" in answer.err


@pytest.mark.parametrize("arguments", [(), ("-",)], ids=["nothing given", "dash"])
def test_stdin_is_read(run: Path, arguments: tuple[str, ...]) -> None:
    done = shell(
        "classify", run, *arguments, input="\n".join(TEXTS).encode(), env=os.environ | {"LC_ALL": "C"}
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2, 3, 4]


def test_a_terminal_as_stdin_with_no_file_is_wrong_usage(run: Path) -> None:
    master, slave = pty.openpty()
    done = shell("classify", run, stdin=slave)
    os.close(slave)
    os.close(master)
    assert done.returncode == 2
    assert b"nothing to classify" in done.stderr


def test_labels_and_file_names_of_any_script_come_out(tmp_path: Path) -> None:
    save_small_run(tmp_path / "run", classes=("好", "плохо", 'a "b", c'))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "文.txt").write_text("a film")
    with open(os.fsencode(tmp_path / "in") + b"/\xff.txt", "w") as file:
        file.write("dull")
    done = shell("classify", tmp_path / "run", tmp_path / "in", "--top", 3, env=os.environ | {"LC_ALL": "C"})
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert {row["id"] for row in found} == {"文.txt", "\udcff.txt"}
    assert {item["label"] for item in found[0]["top"]} == {"好", "плохо", 'a "b", c'}


def test_a_closed_pipe_ends_silently(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS * 3000))
    process = subprocess.Popen(
        [sys.executable, "-m", "capstext", "classify", str(run), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert b'"id": 1,' in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait(60)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_a_signal_ends_a_wait_for_input(run: Path, number: int, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "capstext", "classify", str(run), "--format", "csv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    # more than the three windows that may be under way, so that an answer shows it is at work
    process.stdin.write(b"a film about two brothers\n" * 4000)
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(number)
    assert process.wait(60) == code
    assert b"Traceback" not in process.stderr.read()


def test_help_teaches_by_example(command: Command) -> None:
    answer = command("classify", "--help")
    assert answer.code == 0
    assert "capstext classify runs/reviews new.txt" in answer.out
    assert "--explain" in answer.out
