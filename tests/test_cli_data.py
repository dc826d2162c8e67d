import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from capstext.cli.data import data_app
from capstext.data.catalog import DATASETS
from capstext.data.image_catalog import IMAGE_DATASETS
from capstext.errors import CapstextError, UsageError

HOME = os.environ.get("CAPSTEXT_DATA")
needs_data = pytest.mark.skipif(not HOME, reason="CAPSTEXT_DATA is not set")
TABLE = "said,stars\na fine film,good\na dull film,bad\na fine film,good\n,bad\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(data_app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stderr == ""
    return result.stdout


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "reviews.csv"
    path.write_text(TABLE)
    return path


def test_list_names_every_known_set_and_where_it_would_come_from(monkeypatch):
    monkeypatch.delenv("CAPSTEXT_DATA", raising=False)
    listed = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert set(listed) == {*DATASETS, *IMAGE_DATASETS}
    assert listed["digits"]["found"] == "package"
    assert listed["multimnist"]["where"] == listed["mnist"]["where"] == "ylecun/mnist"
    assert listed["smallnorb"]["found"] is None
    assert listed["ag_news"]["found"] == "hub"
    assert listed["reuters90"]["found"] is None
    lines = run("list").splitlines()
    assert lines[0].split()[:3] == ["name", "rows", "classes"]
    assert len(lines) == len(DATASETS) + len(IMAGE_DATASETS) + 1


def test_info_shows_the_guessed_columns_the_classes_and_the_lengths(table):
    shown = run("info", table)
    assert "text column:  said" in shown
    assert "label column: stars" in shown
    facts = json.loads(run("info", table, "--json"))
    assert facts["classes"] == {"bad": {"train": 2}, "good": {"train": 2}}
    assert facts["splits"]["train"]["rows"] == 4
    assert facts["splits"]["train"]["words"] == {"median": 3.0, "95%": 3.0, "max": 3}


def test_check_counts_empty_and_repeated_texts_and_rare_classes(table):
    findings = json.loads(run("check", table, "--json"))["findings"]
    assert "split train: 1 empty texts" in findings
    assert "split train: 1 texts that repeat another one" in findings
    assert "2 classes with fewer than 10 training rows: bad (2), good (2)" in findings


def test_check_lists_bad_rows_by_file_and_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\ngood,a\nbad,b,c\nal\xe9,b\ncurly\xc2\x92s,b\n")
    shown = run("check", path)
    assert "a.csv:3: 3 fields where the header has 2" in shown
    assert "1 × character replaced" in shown
    assert "1 texts with control characters: another encoding?" in shown
    assert "3 rows checked" in shown


def test_check_reads_texts_without_labels(tmp_path):
    (tmp_path / "new.txt").write_bytes(b"one\n\ncaf\xe9\n")
    shown = run("check", tmp_path / "new.txt")
    assert "1 × empty text" in shown
    assert "1 × character replaced" in shown
    assert shown.endswith("3 rows checked, 2 findings\n")
    (tmp_path / "new.jsonl").write_text('{"text": "one"}\nnonsense\n')
    assert "new.jsonl:2: bad JSON" in run("check", tmp_path / "new.jsonl")
    assert run("check", tmp_path).startswith("1 × character replaced\n1 × file ignored (not text)\n")


def test_check_finds_texts_that_stand_in_two_splits(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\nx,a\ny,b\n")
    (tmp_path / "test.csv").write_text("text,label\ny,b\nz,a\n")
    assert "1 texts stand in both train and test" in run("check", tmp_path)


def test_check_tells_of_bad_rows_even_where_one_class_is_left(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nx,a\ny,b,c\n")
    shown = run("check", tmp_path / "a.csv")
    assert "a.csv:3: 3 fields where the header has 2" in shown
    assert "one class only: a classifier needs two" in shown
    assert "1 × bad row skipped" in run("info", tmp_path / "a.csv", "--skip-bad")


def test_a_clean_set_has_no_findings(tmp_path):
    rows = "".join(f"text {number},{'ab'[number % 2]}\n" for number in range(40))
    (tmp_path / "a.csv").write_text("text,label\n" + rows)
    assert run("check", tmp_path / "a.csv") == "40 rows checked, no findings\n"


@pytest.mark.parametrize("command", ["info", "check"])
def test_errors_are_left_to_the_main_program(command, tmp_path):
    with pytest.raises(CapstextError, match=r"no such file: nothing\.csv"):
        run(command, "nothing.csv")
    with pytest.raises(UsageError, match=r"did you mean trec\?"):
        run(command, "trecc")
    path = tmp_path / "a.csv"
    path.write_text("text,label\nx,a\ny,b\n")
    with pytest.raises(UsageError, match="no column 'nope'"):
        run(command, path, "--label-column", "nope")


def test_info_shows_the_size_and_the_classes_of_images():
    shown = run("info", "digits")
    assert "size:         8x8 grey" in shown
    assert "licence:      CC BY 4.0" in shown
    facts = json.loads(run("info", "digits", "--json"))
    assert facts["splits"]["test"]["rows"] == 359
    assert facts["classes"]["0"] == {"train": 142, "test": 36}
    with pytest.raises(UsageError, match="digits holds images: leave out --text-column"):
        run("info", "digits", "--label-column", "x")


def test_check_finds_bad_blank_and_repeated_images(tmp_path):
    from PIL import Image

    for name, shade in (("train/a/1", 0), ("train/a/2", 0), ("train/b/1", 9), ("test/a/1", 9)):
        path = tmp_path / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), shade).save(path)
    (tmp_path / "train" / "b" / "2.png").write_bytes(b"nonsense")
    shown = run("check", tmp_path)
    assert "1 × bad image skipped" in shown
    assert "train/b/2.png: neither a PNG nor a JPEG image" in shown
    assert "split train: 3 images of one shade all over" in shown
    assert "split train: 1 images that repeat another one" in shown
    assert "1 images stand in both train and test" in shown
    assert "2 classes with fewer than 10 training rows: a (2), b (1)" in shown
    assert "4 rows checked" in shown


@needs_data
def test_published_faults_are_found():
    assert "10 texts stand in both train and test" in run("check", "trec")
    assert "4 empty texts" in run("check", "cr")
    assert "train has 46,372 of 120,000 published rows" in run("info", "ag_news")
    assert "hub:          fancyzhx/ag_news@" in run("info", "ag_news")
