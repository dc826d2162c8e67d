"""One run's settings: frozen, typed, strict. A YAML file and `--set a.b=c` go in, a Config comes out.

The sections model, routing and loss hold a name and that name's own options: the keyword-only arguments of
the function behind the name are its settings, so a new model or routing needs no line here.
"""

import dataclasses
import inspect
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from capstext.errors import CapstextError, UsageError, did_you_mean


@dataclass(frozen=True)
class DataConfig:
    """Which texts: a known name, a file, a folder or a hub id, and how they are split."""

    name: str = "mr"
    text_column: str | None = None
    label_column: str | None = None
    train_split: str = "train"
    validation: float = 0.1
    fold: int | None = None
    folds: int = 10


@dataclass(frozen=True)
class TokensConfig:
    """How texts become ids."""

    kind: Literal["word", "sentencepiece", "huggingface"] = "word"
    source: str | None = None
    revision: str | None = None
    lowercase: bool = True
    min_count: int = 1
    vocabulary: int = 50_000
    extra_words: int = 30_000
    max_length: int = 512


@dataclass(frozen=True)
class EmbeddingsConfig:
    """How ids become vectors: Kim (2014)'s four modes of word vectors, or a transformer's outputs."""

    mode: Literal["random", "static", "non-static", "multichannel", "frozen", "fine-tuned"] = "multichannel"
    vectors: str = "auto"
    encoder: str | None = None
    revision: str | None = None
    dim: int = 100
    dropout: float = 0.5


@dataclass(frozen=True)
class ImagesConfig:
    """How images are changed at random while they are taught, and the weight of drawing them again."""

    shift: int = 0  # pixels, each way
    rotation: float = 0.0  # degrees, each way
    scaling: float = 0.0  # share of a side, each way
    crop: int | None = None  # side of the square that is read: anywhere in training, else in the middle
    contrast: bool = False  # also brightness
    reconstruction: float = 0.0005  # weight of the drawing's error, where a model draws


@dataclass(frozen=True)
class TrainingConfig:
    """How the weights are found."""

    epochs: int = 5
    batch_size: int | None = None  # 50, or fewer where there are few rows
    optimiser: Literal["adam", "adadelta"] = "adam"
    learning_rate: float = 3e-3
    encoder_learning_rate: float = 5e-5
    weight_decay: float = 0.0
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    warmup: float = 0.05
    clip: float = 1.0
    patience: int = 3
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    checkpoint_steps: int = 500
    tensorboard: bool = False


@dataclass(frozen=True)
class Named:
    """A name and the options of what it names."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    data: DataConfig = DataConfig()
    tokens: TokensConfig = TokensConfig()
    embeddings: EmbeddingsConfig = EmbeddingsConfig()
    images: ImagesConfig = ImagesConfig()
    model: Named = Named("capsule-b")
    routing: Named = Named("dynamic", {"softmax": "leaky-sampled"})
    loss: Named = Named("cross-entropy")
    training: TrainingConfig = TrainingConfig()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as YAML and JSON hold them; `parse` reads them back."""
        return {section.name: _plain(getattr(self, section.name)) for section in dataclasses.fields(self)}


def load(path: Path | None, *, overrides: Sequence[str] = ()) -> Config:
    """Read a config file, then apply `--set section.key=value`."""
    settings: dict[str, Any] = {}
    if path is not None:
        settings = read_yaml(path)
        if settings.keys() & {"datasets", "models"}:
            raise UsageError(f"{path}: the config of a comparison: capstext compare {path}")
        place_paths(settings, path)
    for override in overrides:
        _apply(settings, override)
    return parse(settings)


def parse(settings: Mapping[str, Any]) -> Config:
    """Check every key and type."""
    sections = {section.name: section for section in dataclasses.fields(Config)}
    values = {}
    for name, given in settings.items():
        if name not in sections:
            raise UsageError(f"unknown setting {name}; {did_you_mean(str(name), sections)}")
        values[name] = _section(name, given, sections[name].default)
    config = Config(**values)
    _check_ranges(config)
    return config


def arguments(section: str, function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`given`, checked and converted by the keyword-only arguments of `function` that have a default."""
    behind = defined(function)
    hints = get_type_hints(behind.__init__ if inspect.isclass(behind) else behind)
    known = {
        name: hints[name]
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty
    }
    return _checked(section, given, known)


def defined(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function or class behind a name, without the options that the name fixes."""
    return function.func if isinstance(function, partial) else function


def changed(config: Config, settings: Mapping[str, Any]) -> Config:
    """The config with other values of `section.key`, checked."""
    values = config.as_dict()
    for key, value in settings.items():
        section, _, name = key.partition(".")
        values[section] = {**values.get(section, {}), name: value}
    return parse(values)


def _section(name: str, given: Any, default: Any) -> Any:
    if isinstance(default, Named) and isinstance(given, str):
        given = {"name": given}
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise UsageError(f"{name}: expected a section of settings, found {given!r}")
    if isinstance(default, Named):
        options = {str(key): value for key, value in given.items()}
        chosen = str(options.pop("name", default.name))
        return Named(chosen, {**default.options, **options} if chosen == default.name else options)
    return type(default)(**_checked(name, given, get_type_hints(type(default))))


def _checked(section: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for key, value in given.items():
        if key not in known:
            near = did_you_mean(str(key), known).replace("did you mean ", f"did you mean {section}.")
            raise UsageError(f"unknown setting {section}.{key}; {near}")
        values[key] = _convert(f"{section}.{key}", value, known[key])
    return values


def _convert(key: str, value: Any, kind: Any) -> Any:
    """A value as its type wants it: YAML reads 1e-3 as a string and 1 as an int where a float is meant."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _convert(key, value, next(option for option in inner if option is not type(None)))
    if origin is Literal:
        if value in inner:
            return value
        raise UsageError(
            f"{key}: {value!r} is none of its values; {did_you_mean(str(value), map(str, inner))}"
        )
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(key, item, inner[0]) for item in value)
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is float and not isinstance(value, bool):
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    if kind is str and isinstance(value, str):
        return value
    name = getattr(kind, "__name__", None) if origin is None else str(kind)
    raise UsageError(f"{key}: expected {name}, found {value!r}")


def _check_ranges(config: Config) -> None:
    bounds: dict[str, tuple[float, float]] = {
        "data.validation": (0.0, 0.9),
        "data.folds": (2, 1000),
        "tokens.min_count": (1, float("inf")),
        "tokens.vocabulary": (4, float("inf")),
        "tokens.extra_words": (0, float("inf")),
        "tokens.max_length": (1, float("inf")),
        "embeddings.dim": (1, float("inf")),
        "embeddings.dropout": (0.0, 0.95),
        "images.shift": (0, 1000),
        "images.rotation": (0.0, 180.0),
        "images.scaling": (0.0, 0.9),
        "images.crop": (1, 10_000),
        "images.reconstruction": (0.0, float("inf")),
        "training.epochs": (1, float("inf")),
        "training.batch_size": (1, float("inf")),
        "training.learning_rate": (1e-12, 1e3),
        "training.encoder_learning_rate": (0.0, 1e3),
        "training.weight_decay": (0.0, 1e3),
        "training.warmup": (0.0, 0.99),
        "training.clip": (1e-6, float("inf")),
        "training.patience": (1, float("inf")),
        "training.seed": (0, 2**32 - 1),
        "training.checkpoint_steps": (1, float("inf")),
    }
    for key, (low, high) in bounds.items():
        section, name = key.split(".")
        value = getattr(getattr(config, section), name)
        if value is not None and not low <= value <= high:
            raise UsageError(f"{key}: {value} is outside {low:g} to {high:g}")
    fold = config.data.fold
    if fold is not None and not 0 <= fold < config.data.folds:
        raise UsageError(f"data.fold: {fold} is outside 0 to {config.data.folds - 1} (data.folds - 1)")


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice."""


def _unique_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(
                None, None, f"{key} is no key; give a word", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key} stands twice", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def read_yaml(path: Path) -> dict[str, Any]:
    """The sections of a config file, each key given once."""
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{path}: a config is a .yaml file; for labelled texts say --data {path}")
    try:
        settings = yaml.load(path.read_text(encoding="utf-8-sig"), Loader=_StrictLoader)
    except FileNotFoundError:
        raise CapstextError(f"{path}: no such config file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CapstextError(f"{path}: cannot be read: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{path}:{line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise UsageError(f"{path}: expected sections such as data and model, found {settings!r:.80}")
    return settings


def place_paths(settings: Mapping[str, Any], path: Path) -> None:
    """A path in a config is seen from its folder; it must not leave it, as configs may come from others."""
    for section, key in (
        ("data", "name"),
        ("tokens", "source"),
        ("embeddings", "vectors"),
        ("embeddings", "encoder"),
    ):
        given = settings.get(section)
        if not isinstance(given, dict) or not isinstance(value := given.get(key), str):
            continue
        if "/" not in value and "." not in value:
            continue  # a name, even where a folder is called so
        if "\0" in value:
            raise UsageError(f"{path}: {section}.{key}: {value!r} is no path")
        place = path.parent / Path(value).expanduser()
        if not place.resolve().is_relative_to(path.resolve().parent):
            raise UsageError(
                f"{path}: {section}.{key} leaves the config's folder: {value}; "
                f"give such a path on the command line: --set {section}.{key}={value}"
            )
        if place.exists():
            given[key] = str(place)


def _apply(settings: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    section, dot, name = key.strip().partition(".")
    if not equals or not section:
        raise UsageError(f"--set {override}: expected section.key=value")
    try:
        value = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError:
        value = text
    if not dot:
        settings[section] = value
        return
    current = settings.get(section)
    if isinstance(current, str):
        current = {"name": current}
    settings[section] = {**(current or {}), name: value}


def _plain(value: Any) -> Any:
    if isinstance(value, Named):
        return {"name": value.name, **{key: _plain(option) for key, option in value.options.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    return list(value) if isinstance(value, tuple) else value
