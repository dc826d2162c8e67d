"""Run files: what goes in comes out, and a bad one is named."""

import json
from pathlib import Path

import numpy as np
import pytest

from capstext.comparison import records
from capstext.comparison.records import Answers, Record
from capstext.errors import CapstextError

SCORES = {
    "multi_label": True,
    "accuracy": 0.25,
    "expected_calibration_error": None,
    "macro": {"f1": 0.5},
    "micro": {"f1": 0.5},
    "reliability": [],
}


def record(rows: int = 7, classes: int = 3) -> Record:
    random = np.random.default_rng(0)
    return Record(
        dataset="mr",
        model="cnn",
        embeddings="glove",
        protocol="10 folds",
        family="baseline",
        seed=0,
        fold=2,
        config={"training": {"epochs": 3}},
        search=None,
        classes=tuple("abc"[:classes]),
        multi_label=True,
        rows={"train": 5, "test": rows},
        validation={"accuracy": 0.5},
        tests={"test": SCORES},
        answers={
            "test": Answers(
                random.random((rows, classes)) > 0.5,
                random.random((rows, classes)) > 0.5,
                random.integers(0, 256, (rows, classes), dtype=np.uint8),
            )
        },
        epochs=3,
        best_epoch=2,
        seconds={"prepare": 1.0, "train": 2.0, "all": 3.5},
        texts_per_second=100.0,
        parameters=10,
        trained_parameters=9,
        peak_memory=None,
        device="cpu",
        versions={},
        finished="2026-01-01T00:00:00+00:00",
    )


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    written = record()
    records.save(tmp_path / "a" / "run.json", written)
    (found,) = records.load_all(tmp_path)
    for name in ("predicted", "labels", "probabilities"):
        assert np.array_equal(getattr(found.answers["test"], name), getattr(written.answers["test"], name))
    assert found.as_dict() == written.as_dict()


def test_a_finished_run_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    records.save(path, record())
    before = path.read_bytes()
    with pytest.raises(CapstextError, match="finished run already"):
        records.save(path, record(rows=3))
    assert path.read_bytes() == before


@pytest.mark.parametrize("kept", [0, 1, 100, -2])
def test_a_run_file_cut_in_half_is_named(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    records.save(path, record())
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CapstextError, match=r"run\.json: damaged or cut short"):
        records.load(path)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"format": 99, "capstext": "7.0"}, "written by capstext 7.0 in format 99"),
        ({"format": None}, "no format number"),
        ({"answers": {"test": {"shape": [7, 3]}}}, "damaged"),
        ({"answers": {"test": {"shape": [7, 3], "labels": "AAAA", "predicted": "AAAA"}}}, "damaged"),
        ({"classes": None}, "damaged"),
        ({"surprise": 1}, "surprise"),
        ({"format": None}, "move it elsewhere"),
        ({"seed": "0"}, "seed cannot be '0'"),
        ({"seed": True}, "seed cannot be True"),
        ({"fold": 1.5}, "fold cannot be 1.5"),
        ({"family": "cnn"}, "family cannot be 'cnn'"),
        ({"rows": {"train": "5"}}, "rows cannot be {'train': '5'}"),
        ({"classes": [1, 2, 3]}, "classes cannot be (1, 2, 3)"),
        ({"config": {"training": 3}}, "config cannot be {'training': 3}"),
        ({"seconds": {"prepare": 1, "train": 2}}, "damaged: all is missing"),
        ({"tests": {}}, "tests and answers are of other rows"),
        ({"tests": {"test": SCORES, "more": SCORES}}, "tests and answers are of other rows"),
        ({"tests": {"test": {}}}, "damaged: multi_label is missing"),
        ({"tests": {"test": {**SCORES, "macro": {}}}}, "damaged: f1 is missing"),
        ({"tests": {"test": {**SCORES, "accuracy": "x"}}}, "accuracy cannot be 'x'"),
        ({"classes": ["a", "b"]}, "answers are of other classes"),
        ({"search": {"chosen": {}}}, "damaged: tried is missing"),
        ({"search": {"tried": 3}}, "search has no list of what was tried"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_strange_run_file_is_named(change: dict, part: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(record().as_dict() | change))
    with pytest.raises(CapstextError) as caught:
        records.load(path)
    assert str(caught.value).startswith(str(path))
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_answers_of_another_number_of_rows_are_named(tmp_path: Path) -> None:
    """Bits that are missing would be read as no, and a wild number would take all memory."""
    path = tmp_path / "run.json"
    values = record(rows=16).as_dict()
    packed, fewer = values["answers"]["test"], record(rows=7).as_dict()["answers"]["test"]
    for change in ({"labels": fewer["labels"]}, {"shape": [10**12, 3]}, {"shape": [10**30, 3]}):
        path.write_text(json.dumps(values | {"answers": {"test": packed | change}}))
        with pytest.raises(CapstextError, match=r"run\.json: damaged: .* are not of 1\d* rows and 3 classes"):
            records.load(path)


def test_brackets_without_end_are_no_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(CapstextError, match="damaged or cut short"):
        records.load(tmp_path / "run.json")


def test_two_files_of_one_run_are_named(tmp_path: Path) -> None:
    """A copy beside the original would count twice."""
    for name in ("a.json", "b.json"):
        records.save(tmp_path / name, record())
    with pytest.raises(CapstextError, match=r"a\.json and .*b\.json are files of the same run; remove one"):
        list(records.load_all(tmp_path))


def test_a_folder_that_is_called_like_a_run_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "texts.json").mkdir()
    records.save(tmp_path / "texts.json" / "run.json", record())
    assert len(list(records.load_all(tmp_path))) == 1
