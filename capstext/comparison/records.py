"""A finished run of a comparison as one small JSON file: all that a report needs, to be read anywhere."""

import base64
import dataclasses
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from capstext.errors import CapstextError
from capstext.files import write_json
from capstext.version import VERSION

FORMAT = 1
SUFFIX = ".json"
SCORES: dict[str, Any] = {  # those of a test split that a report reads
    "multi_label": bool,
    "accuracy": float | None,
    "expected_calibration_error": float | None,
    "macro": dict[str, float | None],
    "micro": dict[str, float | None],
    "reliability": list,
}


@dataclass(frozen=True)
class Answers:
    """What a model said about the rows of a test split, and what was true: [rows, classes] each."""

    predicted: NDArray[np.bool_]
    labels: NDArray[np.bool_]
    probabilities: NDArray[np.uint8]  # in 255ths

    @property
    def right(self) -> NDArray[np.bool_]:
        """Of each row: every label right."""
        return (self.predicted == self.labels).all(axis=1)

    def as_dict(self) -> dict[str, Any]:
        packed = {
            "predicted": np.packbits(self.predicted, axis=None),
            "labels": np.packbits(self.labels, axis=None),
            "probabilities": self.probabilities,
        }
        return {"shape": list(self.labels.shape)} | {
            name: base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()
            for name, array in packed.items()
        }

    @classmethod
    def parse(cls, values: dict[str, Any]) -> "Answers":
        rows, classes = values["shape"]

        def array(name: str) -> NDArray[np.uint8]:
            return np.frombuffer(zlib.decompress(base64.b64decode(values[name])), dtype=np.uint8)

        def bits(name: str) -> NDArray[np.bool_]:
            packed = array(name)
            if packed.size != -(-rows * classes // 8):
                raise ValueError(f"{name} are not of {rows} rows and {classes} classes")
            return np.unpackbits(packed, count=rows * classes).astype(bool).reshape(rows, classes)

        return cls(bits("predicted"), bits("labels"), array("probabilities").reshape(rows, classes))


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run: what was asked, what came out, what it cost."""

    dataset: str
    model: str
    embeddings: str  # "none" where a model reads the words themselves
    protocol: str  # such as "10 folds" or "5 seeds"
    family: Literal["capsules", "baseline"]
    seed: int
    fold: int | None
    config: dict[str, dict[str, Any]]
    search: dict[str, Any] | None  # trials, and what the best of them chose, by validation score
    classes: tuple[str, ...]
    multi_label: bool
    rows: dict[str, int]
    validation: dict[str, Any]  # as metrics.evaluate gives them
    tests: dict[str, dict[str, Any]]  # the same, for every test split
    answers: dict[str, Answers]  # by test split
    epochs: int
    best_epoch: int
    seconds: dict[str, float]  # prepare, train, all
    texts_per_second: float  # of classification, one thread or one GPU
    parameters: int
    trained_parameters: int
    peak_memory: int | None  # bytes of the whole process
    device: str
    versions: dict[str, str]
    finished: str  # ISO 8601, UTC
    interrupted: bool = False  # stopped and resumed: the seconds are those since then

    @property
    def source(self) -> str:
        """The data set's own name; `dataset` may be a label of the user's for a part of it."""
        return str(self.config.get("data", {}).get("name", self.dataset))

    def as_dict(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        values["answers"] = {split: answers.as_dict() for split, answers in self.answers.items()}
        return {"format": FORMAT, "capstext": VERSION, **values}


def save(path: Path, record: Record) -> None:
    """Write the file whole; one that stands there already is never written over."""
    if path.exists():
        raise CapstextError(f"{path}: is a finished run already; it is kept as it is")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record.as_dict())


def load(path: Path) -> Record:
    """Read a run file, or say in one line what is wrong with it."""
    remedy = "remove it, and the run is made again"
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CapstextError(f"{path}: no such run file") from None
    except (ValueError, RecursionError):
        raise CapstextError(f"{path}: damaged or cut short: no valid JSON; {remedy}") from None
    if not isinstance(values, dict) or not isinstance(values.get("format"), int):
        raise CapstextError(f"{path}: not the file of a run: it has no format number; move it elsewhere")
    written, version = values.pop("format"), values.pop("capstext", "unknown")
    if written != FORMAT:
        raise CapstextError(
            f"{path}: written by capstext {version} in format {written}, this one reads format {FORMAT}; "
            f"use that version, or {remedy}"
        )
    try:
        values["answers"] = {split: Answers.parse(answers) for split, answers in values["answers"].items()}
        values["classes"] = tuple(values["classes"])
        _refuse_nonsense(values)
        return Record(**values)
    except KeyError as error:
        raise CapstextError(f"{path}: damaged: {error.args[0]} is missing; {remedy}") from None
    except (TypeError, ValueError, AttributeError, zlib.error) as error:
        raise CapstextError(f"{path}: damaged: {' '.join(str(error).split())}; {remedy}") from None


def load_all(folder: Path) -> Iterator[Record]:
    """Every run under the folder, in the order of their paths."""
    met: dict[tuple[object, ...], Path] = {}
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            found = load(path)
            key = (found.dataset, found.protocol, found.model, found.embeddings, found.seed, found.fold)
            if (other := met.setdefault(key, path)) is not path:
                raise CapstextError(f"{other} and {path} are files of the same run; remove one of them")
            yield found


def _refuse_nonsense(values: dict[str, Any]) -> None:
    """Values of another kind than they are written in, or that do not go together."""
    for name, kind in get_type_hints(Record).items():
        if name in values and not _is(values[name], kind):
            raise ValueError(f"{name} cannot be {values[name]!r:.60}")
    for part in ("prepare", "train", "all"):
        values["seconds"][part]
    for scores in values["tests"].values():
        for name, kind in SCORES.items():
            if not _is(scores[name], kind):
                raise ValueError(f"{name} cannot be {scores[name]!r:.60}")
        scores["macro"]["f1"], scores["micro"]["f1"]
    if values["search"] and not isinstance(values["search"]["tried"], list):
        raise ValueError("search has no list of what was tried")
    if not values["tests"] or values["tests"].keys() != values["answers"].keys():
        raise ValueError("tests and answers are of other rows")
    if any(answers.labels.shape[1] != len(values["classes"]) for answers in values["answers"].values()):
        raise ValueError("answers are of other classes")


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind, and what it holds too."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(_is(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is dict:
        return isinstance(value, dict) and all(_is(item, inner[1]) for item in value.values())
    if origin is tuple:
        return isinstance(value, tuple) and all(_is(item, inner[0]) for item in value)
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    return isinstance(value, kind)
