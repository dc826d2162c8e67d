"""From a comparison's config to the runs that it asks for: data sets x models x embeddings x seeds or folds.

Every run has the settings of an ordinary training, put together from those of all runs, its data set, its
embeddings and its model. The budget is the same for all, so no model may set its own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from capstext import config as settings
from capstext.comparison.budgets import RESERVED, Budget, budget_of, choices, search_of
from capstext.config import Config
from capstext.errors import UsageError, did_you_mean
from capstext.models import MODELS

Settings = dict[str, dict[str, Any]]

KEYS = ("datasets", "models", "embeddings", "settings", "budget", "search", "seeds", "folds")
SECTIONS = tuple(Config().as_dict())
SEEDS = 5


@dataclass(frozen=True)
class Cell:
    """A model with embeddings on a data set: the same settings for all its runs."""

    dataset: str
    model: str
    embeddings: str
    family: Literal["capsules", "baseline"]
    protocol: str
    config: Config
    budget: Budget
    choices: tuple[dict[str, Any], ...]  # what the trials try; none where nothing is searched

    @property
    def folder(self) -> Path:
        return Path(
            *(_file_name(part) for part in (self.dataset, self.protocol, self.model, self.embeddings))
        )

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model}, {self.embeddings}"


@dataclass(frozen=True)
class Planned:
    """One run of a cell."""

    cell: Cell
    seed: int
    fold: int | None

    @property
    def path(self) -> Path:
        """Its file, below the folder of all runs."""
        name = f"seed-{self.seed}" if self.fold is None else f"fold-{self.fold}"
        return self.cell.folder / f"{name}.json"

    def config(self, cell_config: Config) -> Config:
        """The cell's settings, after its search, for this seed and fold."""
        return replace(
            cell_config,
            data=replace(cell_config.data, fold=self.fold),
            training=replace(cell_config.training, seed=self.seed),
        )

    def __str__(self) -> str:
        part = f"seed {self.seed}" if self.fold is None else f"fold {self.fold}"
        return f"{self.cell}, {part}"


def load(
    path: Path,
    *,
    data: Sequence[str] = (),
    seeds: int | None = None,
    folds: int | None = None,
    only: Sequence[str] = (),
) -> list[Planned]:
    """All runs of a comparison, or those of some data sets, models or embeddings by name (`only`).

    `data` and `seeds` or `folds` stand before what the file says.
    """
    given = settings.read_yaml(path)
    if given.keys() & {"data", "model"}:
        raise UsageError(f"{path}: the config of a single training: capstext train {path}")
    named = {Path(name).stem: name for name in data}
    if named:
        given["datasets"] = list(named)
    if seeds is not None and folds is not None:
        raise UsageError("--seeds and --folds: give one of them")
    for key in given:
        if key not in KEYS:
            raise UsageError(f"{path}: unknown setting {key}; {did_you_mean(str(key), KEYS)}")
    for key in ("datasets", "models"):
        if not given.get(key):
            raise UsageError(
                f"{path}: no {key}; a comparison lists {key}, such as `{key}: [{_example(key)}]`"
            )
    protocol = {"seeds": seeds, "folds": folds} if seeds or folds else None
    try:
        plan = list(_plan(given, path, named, protocol))
        _refuse_one_file_for_two(plan)
        return _only(plan, only)
    except UsageError as error:
        raise UsageError(str(error) if str(error).startswith(f"{path}:") else f"{path}: {error}") from None


def _plan(
    given: Mapping[str, Any], path: Path, named: Mapping[str, str], protocol: dict[str, int | None] | None
) -> Iterator[Planned]:
    shared = _sections("settings", given.get("settings"), path)
    embeddings = {
        name: _sections(f"embeddings.{name}", {"embeddings": entry}, path)
        for name, entry in _named("embeddings", given.get("embeddings") or {"default": {}}).items()
    }
    models = {
        name: (
            entry,
            _sections(
                f"models.{name}", {key: entry[key] for key in entry if key not in ("search", "with")}, path
            ),
        )
        for name, entry in _named("models", given["models"]).items()
    }
    for dataset, entry in _named("datasets", given["datasets"]).items():
        entry = dict(entry)
        counts = _counts(dataset, entry, given) | (protocol or {})
        budget = budget_of(dataset, entry, given.get("budget") or {})
        own = _sections(f"datasets.{dataset}", {"data": {}} | entry, path)
        if dataset in named:
            own["data"]["name"] = named[dataset]
        cells = [
            _cell(
                dataset,
                model,
                label,
                [shared, _named_data(dataset, path), own, chosen],
                folds=counts["folds"],
                budget=budget,
                search=search_of(given.get("search"), model_entry.get("search")),
            )
            for model, (model_entry, model_settings) in models.items()
            for label, chosen in _crossed(model, model_settings, model_entry.get("with"), embeddings)
        ]
        for number in range(counts["folds"] or counts["seeds"] or SEEDS):
            fold, seed = (number, 0) if counts["folds"] else (None, number)
            yield from (Planned(cell, seed, fold) for cell in cells)


def _named(key: str, given: Any) -> dict[str, Any]:
    """A list of names, or names with settings."""
    if isinstance(given, list):
        if len(set(map(str, given))) < len(given):
            raise UsageError(f"{key}: a name stands twice")
        given = dict.fromkeys(given)
    if not isinstance(given, Mapping) or not all(
        entry is None or isinstance(entry, Mapping) for entry in given.values()
    ):
        raise UsageError(f"{key}: expected a list of names, or names with settings, found {given!r:.80}")
    return {str(name): dict(entry or {}) for name, entry in given.items()}


def _sections(where: str, given: Any, path: Path) -> Settings:
    """Sections as a training config has them; what is reserved for budget and protocol is refused."""
    found: Settings = {}
    for section, values in (given or {}).items():
        if section not in SECTIONS:
            raise UsageError(f"{where}: unknown section {section}; {did_you_mean(str(section), SECTIONS)}")
        values = {"name": values} if isinstance(values, str) else dict(values or {})
        for key in values:
            if owner := RESERVED.get(f"{section}.{key}"):
                raise UsageError(f"{where}: {section}.{key} is {owner}")
        found[section] = values
    settings.place_paths(found, path)
    return found


def _named_data(dataset: str, path: Path) -> Settings:
    """A data set is called by its name, or by its file beside the config."""
    return _sections("datasets", {"data": {"name": dataset}}, path)


def _counts(dataset: str, entry: dict[str, Any], given: Mapping[str, Any]) -> dict[str, int | None]:
    """Seeds or folds: the data set's own, or those of all."""
    own = {key: entry.pop(key) for key in ("seeds", "folds") if key in entry}
    chosen = own or {key: given[key] for key in ("seeds", "folds") if key in given} or {"seeds": SEEDS}
    if len(chosen) > 1:
        raise UsageError(f"datasets.{dataset}: seeds and folds: give one of them")
    (key, count), *_ = chosen.items()
    if not isinstance(count, int) or isinstance(count, bool) or count < (2 if key == "folds" else 1):
        raise UsageError(f"datasets.{dataset}: {key}: {count!r} is no number of {key}")
    return {"seeds": None, "folds": None} | {key: count}


def _crossed(
    model: str, own: Settings, wanted: Sequence[str] | None, embeddings: Mapping[str, Settings]
) -> Iterator[tuple[str, Settings]]:
    """A model with each of its embeddings; one that learns its own vectors, or counts words, stands once."""
    own = own | {"model": {"name": model} | own.get("model", {})}
    name = own["model"]["name"]
    if name not in MODELS:
        raise UsageError(f"models.{model}: unknown model {name!r}; {did_you_mean(str(name), MODELS)}")
    if getattr(settings.defined(MODELS[name]), "reads_ids", False):
        yield "none", own
        return
    if own.get("embeddings", {}).get("mode") == "random":
        yield "random", own
        return
    for label in wanted if wanted is not None else embeddings:
        if label not in embeddings:
            raise UsageError(
                f"models.{model}: with: unknown embeddings {label!r}; {did_you_mean(str(label), embeddings)}"
            )
        both = embeddings[label]["embeddings"].keys() & own.get("embeddings", {}).keys()
        if both:
            raise UsageError(
                f"models.{model} and embeddings.{label} both set embeddings.{min(both)}; "
                f"name the embeddings that the model goes with, such as `with: [{next(iter(embeddings))}]`"
            )
        yield str(label), _merged([embeddings[label], own])


def _cell(
    dataset: str,
    model: str,
    label: str,
    parts: Sequence[Settings],
    *,
    folds: int | None,
    budget: Budget,
    search: Mapping[str, Sequence[Any]],
) -> Cell:
    merged = _merged(parts)
    if folds:
        merged["data"]["folds"] = folds
    if budget.epochs:
        merged.setdefault("training", {})["epochs"] = int(budget.epochs)
    config = settings.parse(merged)
    capsules = config.model.name.startswith("capsule") and config.routing.name != "static"
    return Cell(
        dataset=dataset,
        model=model,
        embeddings=label,
        family="capsules" if capsules else "baseline",
        protocol=f"{folds} folds" if folds else "seeds",
        config=config,
        budget=budget,
        choices=choices(model, search, budget.trials),
    )


def _merged(parts: Sequence[Settings]) -> Settings:
    """Later ones win, key by key; another name takes its own options only."""
    merged: Settings = {}
    for part in parts:
        for section, values in part.items():
            before = merged.get(section, {})
            renamed = (
                section != "data" and "name" in values and before.get("name") not in (None, values["name"])
            )
            merged[section] = dict(values) if renamed else before | values
    return merged


def _only(plan: list[Planned], names: Sequence[str]) -> list[Planned]:
    """Runs of the named data sets, models and embeddings; where none of a kind is named, of all."""
    for kind in ("dataset", "model", "embeddings"):
        known = {getattr(planned.cell, kind) for planned in plan}
        if wanted := known.intersection(names):
            plan = [planned for planned in plan if getattr(planned.cell, kind) in wanted]
        names = [name for name in names if name not in wanted]
    if names:
        labels = {label for planned in plan for label in _labels(planned.cell)}
        raise UsageError(f"--only: no runs of {names[0]!r}; {did_you_mean(names[0], labels)}")
    return plan


def _labels(cell: Cell) -> tuple[str, str, str]:
    return cell.dataset, cell.model, cell.embeddings


def _refuse_one_file_for_two(plan: Sequence[Planned]) -> None:
    taken: dict[Path, Planned] = {}
    for planned in plan:
        if (other := taken.setdefault(planned.path, planned)) is not planned:
            raise UsageError(f"{other} and {planned} would be one file, {planned.path}: rename one")


def _example(key: str) -> str:
    return "mr, trec" if key == "datasets" else "capsule-b, cnn, lstm"


def _file_name(label: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", label).strip("-.") or "-"
