"""The run folder: a trained model on disk, in Hugging Face's layout, without pickle.

Written file by file, each whole or not at all; read back only if every part is there, is as it was written
and fits the others.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from capstext import config as settings
from capstext import embeddings, models, tokenizers
from capstext.checkpoints import save_tensors
from capstext.config import Config, Named
from capstext.errors import CapstextError, UsageError
from capstext.files import TEMPORARY, sha256, write_json, write_text, write_whole
from capstext.models import Model
from capstext.routing import GIVEN, ROUTINGS
from capstext.version import VERSION

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
METRICS = "metrics.json"
CARD = "README.md"
CHECKSUMS = "checksums.json"
CHECKPOINTS = "checkpoints"  # while training
# What a model is read from. The card is for people, who may edit it.
PARTS = {
    CONFIG: "the settings and label names",
    WEIGHTS: "the weights",
    TOKENIZER: "the tokenizer",
    TOKENIZER_CONFIG: "the tokenizer's settings",
    METRICS: "the scores",
}
OF_TEXTS = (TOKENIZER, TOKENIZER_CONFIG)
PICKLES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".joblib")


@dataclass(frozen=True)
class Run:
    """A run folder, read."""

    model: Model
    tokenizer: Tokenizer | None  # images have none
    config: Config
    classes: tuple[str, ...]
    multi_label: bool
    metrics: dict[str, Any]
    folder: Path


@dataclass(frozen=True)
class Blueprint:
    """All that a model without weights is built from."""

    config: Config
    embedding: Mapping[str, Any]
    classes: int

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "format": FORMAT,
            "config": self.config.as_dict(),
            "embedding": dict(self.embedding),
        }

    @classmethod
    def parse(cls, values: Any, *, classes: int) -> "Blueprint":
        """Read `as_dict` back; a format that is newer than this program is refused."""
        if not isinstance(values, Mapping) or not isinstance(values.get("format"), int):
            raise CapstextError('no "capstext" section with a format number; was it written by capstext?')
        if values["format"] > FORMAT:
            raise CapstextError(
                f"written by capstext {values.get('version')} in format {values['format']}, "
                f"and capstext {VERSION} reads up to format {FORMAT}: upgrade capstext"
            )
        for name in ("config", "embedding"):
            if not isinstance(values.get(name), Mapping):
                raise CapstextError(f'the "capstext" section lacks {name}, or it is no table')
        return cls(config=settings.parse(values["config"]), embedding=values["embedding"], classes=classes)

    @property
    def parts(self) -> dict[str, str]:
        """The files of the model, and what each holds."""
        return {name: holds for name, holds in PARTS.items() if name not in OF_TEXTS or not self.of_images}

    @property
    def of_images(self) -> bool:
        return self.embedding.get("kind") == "pixels"

    def empty_model(self) -> Model:
        """The model in shape, its weights yet to be filled; the caller's random numbers stay as they are."""
        with torch.random.fork_rng(devices=[]):
            embedding = embeddings.empty(self.embedding)
            return models.build_model(self.config, embedding=embedding, classes=self.classes)


def save(
    folder: Path,
    *,
    model: Model,
    tokenizer: Tokenizer | None,
    config: Config,
    classes: Sequence[str],
    multi_label: bool,
    metrics: Mapping[str, Any],
    card: str,
) -> None:
    """Write the folder; the checksums come last, so that a folder without them was never finished."""
    folder.mkdir(parents=True, exist_ok=True)
    for left_by_a_killed_process in folder.glob(TEMPORARY):
        left_by_a_killed_process.unlink()
    blueprint = Blueprint(
        config=resolved(config), embedding=embeddings.describe(model.embedding), classes=len(classes)
    )
    write_whole(folder / WEIGHTS, lambda path: save_tensors(path, model.state_dict()))
    write_json(folder / CONFIG, _config_json(blueprint, classes, multi_label=multi_label))
    if tokenizer is not None:
        length = config.tokens.max_length
        write_text(folder / TOKENIZER, tokenizer.to_str(pretty=True))
        write_json(folder / TOKENIZER_CONFIG, tokenizers.tokenizer_config(tokenizer, max_length=length))
    write_json(folder / METRICS, dict(metrics))
    write_text(folder / CARD, card)
    sums = {name: sha256(folder / name) for name in (*blueprint.parts, CARD)}
    write_json(folder / CHECKSUMS, {"capstext": VERSION, "sha256": sums})


def refuse_taken(folder: Path, *, resume: bool) -> None:
    """A folder that holds a run already is gone on with, or left alone."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; --out names a folder")
    if resume:
        return
    if (folder / CHECKSUMS).exists():
        raise CapstextError(f"{folder}: holds a finished run; choose another --out, or remove it")
    if (folder / CHECKPOINTS).exists():
        raise CapstextError(
            f"{folder}: holds an unfinished run; go on with --resume, or choose another --out"
        )


def load(folder: Path | str, *, device: str = "cpu") -> Run:
    """Read the folder, or say in one line which file of it is wrong."""
    folder = Path(folder)
    _refuse_what_is_no_run(folder)
    sums = _read_checksums(folder / CHECKSUMS)
    _verify(folder / CONFIG, sums)
    config_json = _read_json(folder / CONFIG, PARTS[CONFIG])
    try:
        classes = _class_names(config_json)
        blueprint = Blueprint.parse(config_json.get("capstext"), classes=len(classes))
        model = blueprint.empty_model()
    except (CapstextError, AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise CapstextError(f"{folder / CONFIG}: {' '.join(str(error).split())}") from None
    for name in blueprint.parts:
        _verify(folder / name, sums)
    _fill(model, folder / WEIGHTS)
    return Run(
        model=model.to(device).eval(),
        tokenizer=None if blueprint.of_images else tokenizers.load(folder / TOKENIZER),
        config=blueprint.config,
        classes=classes,
        multi_label=config_json.get("problem_type") == "multi_label_classification",
        metrics=_read_json(folder / METRICS, PARTS[METRICS]),
        folder=folder,
    )


def resolved(config: Config) -> Config:
    """Every option of model and routing by its value: a run must outlive the defaults of its day."""
    model, routing = config.model, config.routing
    return replace(
        config,
        model=Named(model.name, _defaults(models.MODELS[model.name]) | dict(model.options)),
        routing=Named(routing.name, _defaults(ROUTINGS[routing.name]) | dict(routing.options)),
    )


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The options of a model or routing; tensors and what a caller gives at each call are none."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
        and parameter.default is not parameter.empty
        and parameter.annotation != (Tensor | None)
        and name not in GIVEN
    }


def _config_json(blueprint: Blueprint, classes: Sequence[str], *, multi_label: bool) -> dict[str, Any]:
    return {
        "model_type": "capstext",
        "architectures": [f"CapstextFor{'Image' if blueprint.of_images else 'Sequence'}Classification"],
        "problem_type": "multi_label_classification" if multi_label else "single_label_classification",
        "id2label": {str(place): name for place, name in enumerate(classes)},
        "label2id": {name: place for place, name in enumerate(classes)},
        "capstext": blueprint.as_dict(),
    }


def _class_names(config_json: Mapping[str, Any]) -> tuple[str, ...]:
    names = config_json.get("id2label")
    if (
        not names
        or not isinstance(names, Mapping)
        or set(names) != {str(place) for place in range(len(names))}
    ):
        raise CapstextError(f"id2label should number the classes from 0, found {names!r:.80}")
    return tuple(str(names[str(place)]) for place in range(len(names)))


def _refuse_what_is_no_run(folder: Path) -> None:
    """A model in any other form is not opened: pickle, which .pt and .bin files are, can run code."""
    if not folder.exists():
        raise CapstextError(f"{folder}: no such run folder")
    if not folder.is_dir():
        if folder.suffix in PICKLES or _starts_like_pickle(folder):
            raise CapstextError(
                f"{folder}: refused: pickle can run code; a model is a run folder with {WEIGHTS}"
            )
        raise CapstextError(
            f"{folder}: is a file; a model is a run folder, as `capstext train --out` makes it"
        )
    if not (folder / CONFIG).is_file() or not (folder / WEIGHTS).is_file():
        pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
        if pickles:
            raise CapstextError(
                f"{folder / pickles[0]}: refused: pickle can run code; a run folder holds {WEIGHTS} instead"
            )
    if not (folder / CONFIG).is_file():
        raise CapstextError(f"{folder / CONFIG}: missing; {folder} is not the folder of a finished training")


def _starts_like_pickle(path: Path) -> bool:
    """Protocol 2 and later open with this byte; torch wraps its pickles in a zip file."""
    with open(path, "rb") as file:
        start = file.read(4)
    return start[:1] == b"\x80" or start == b"PK\x03\x04"


def _read_json(path: Path, holds: str) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CapstextError(f"{path}: missing; it holds {holds}") from None
    except ValueError as error:
        raise CapstextError(f"{path}: damaged: not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise CapstextError(f"{path}: damaged: expected a JSON object")
    return values


def _read_checksums(path: Path) -> dict[str, str]:
    sums = _read_json(path, "the checksums and is written last: saving was cut short").get("sha256")
    if not isinstance(sums, dict):
        raise CapstextError(f"{path}: damaged: no table of checksums")
    return sums


def _verify(path: Path, sums: Mapping[str, str]) -> None:
    """A flipped bit would load without a word."""
    if not path.is_file():
        raise CapstextError(f"{path}: missing; it holds {PARTS[path.name]}")
    if sha256(path) != sums.get(path.name):
        raise CapstextError(
            f"{path}: damaged or changed: its checksum is not the one in {CHECKSUMS}; copy the run again"
        )


def _fill(model: Model, path: Path) -> None:
    """Give the model its weights: exactly those, all of those, in their shapes."""
    try:
        weights = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CapstextError(f"{path}: damaged: {error}") from None
    expected = model.state_dict()
    if difference := sorted(expected.keys() ^ weights.keys()):
        name = difference[0]
        fault = f"lacks {name}" if name in expected else f"holds {name}, which the model has not"
        raise CapstextError(f"{path}: does not fit {CONFIG}: it {fault} ({len(difference)} such names)")
    for name, tensor in expected.items():
        if tensor.shape != weights[name].shape:
            raise CapstextError(
                f"{path}: does not fit {CONFIG}: {name} is {list(weights[name].shape)}, "
                f"expected {list(tensor.shape)}"
            )
    model.load_state_dict(weights, strict=True, assign=True)
