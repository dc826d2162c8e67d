"""Run files: what goes in comes out, and a bad one is named."""

import json
from pathlib import Path

import numpy as np
import pytest

from capstext.comparison import records
from capstext.comparison.records import Answers, Record
from capstext.errors import CapstextError


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
        tests={"test": {"accuracy": 0.25}},
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
    ],
    ids=["newer", "no format", "no answers", "garbled answers", "no classes", "another field"],
)
def test_a_strange_run_file_is_named(change: dict, part: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(record().as_dict() | change))
    with pytest.raises(CapstextError) as caught:
        records.load(path)
    assert str(caught.value).startswith(str(path))
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
