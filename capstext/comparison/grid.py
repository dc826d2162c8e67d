"""From a comparison's config to the runs that it asks for: data sets x models x embeddings x seeds or folds.

Every run has the settings of an ordinary training, put together from those of all runs, its data set, its
embeddings and its model. The budget is the same for all, so no model may set its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from capstext import config as settings
from capstext.comparison.budgets import Budget, budget_of, choices, search_of
from capstext.comparison.entries import MOST, SEEDS, Settings, counts, file_name, named, named_data, sections
from capstext.config import Config
from capstext.errors import UsageError, did_you_mean
from capstext.models import MODELS, reads_images, routes

KEYS = ("datasets", "models", "embeddings", "settings", "budget", "search", "seeds", "folds")


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
        return Path(*(file_name(part) for part in (self.dataset, self.protocol, self.model, self.embeddings)))

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
    files = _titles(data)
    if files:
        given["datasets"] = list(files)
    if seeds is not None and folds is not None:
        raise UsageError("--seeds and --folds: give one of them")
    if (seeds or folds or 0) > MOST:
        raise UsageError(f"--seeds and --folds: {seeds or folds} is too many; give up to {MOST}")
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
        plan = list(_plan(given, path, files, protocol))
        _refuse_one_file_for_two(plan)
        return _only(plan, only)
    except UsageError as error:
        raise UsageError(str(error) if str(error).startswith(f"{path}:") else f"{path}: {error}") from None


def _plan(
    given: Mapping[str, Any], path: Path, files: Mapping[str, str], protocol: dict[str, int | None] | None
) -> Iterator[Planned]:
    shared = sections("settings", given.get("settings"), path)
    if "name" in shared.get("data", {}):
        raise UsageError("settings: data.name is the data sets': list it in datasets")
    embeddings = {
        name: sections(f"embeddings.{name}", {"embeddings": entry}, path)
        for name, entry in named("embeddings", given.get("embeddings") or {"default": {}}).items()
    }
    if "none" in embeddings:
        raise UsageError("embeddings: none is what models that count words are listed with; rename it")
    models = {
        name: (
            entry,
            sections(
                f"models.{name}", {key: entry[key] for key in entry if key not in ("search", "with")}, path
            ),
        )
        for name, entry in named("models", given["models"]).items()
    }
    for name, (entry, _) in models.items():
        if "data" in entry:
            raise UsageError(f"models.{name}: data are the data sets', the same for every model")
    for dataset, entry in named("datasets", given["datasets"]).items():
        count = counts(dataset, entry, given) | (protocol or {})
        budget = budget_of(dataset, entry, given.get("budget"))
        own = sections(f"datasets.{dataset}", {"data": {}} | entry, path)
        if dataset in files:
            own.setdefault("data", {})["name"] = files[dataset]
        cells = [
            _cell(
                dataset,
                model,
                label,
                [shared, named_data(dataset, path), own, chosen],
                folds=count["folds"],
                budget=budget,
                search=search_of(given.get("search"), model_entry.get("search")),
            )
            for model, (model_entry, model_settings) in models.items()
            for label, chosen in _crossed(model, model_settings, model_entry.get("with"), embeddings)
        ]
        for number in range(count["folds"] or count["seeds"] or SEEDS):
            fold, seed = (number, 0) if count["folds"] else (None, number)
            yield from (Planned(cell, seed, fold) for cell in cells)


def _crossed(
    model: str, own: Settings, wanted: Any, embeddings: Mapping[str, Settings]
) -> Iterator[tuple[str, Settings]]:
    """A model with each of its embeddings; one that learns its own vectors, counts words or reads pixels
    stands once."""
    own = own | {"model": {"name": model} | own.get("model", {})}
    name = own["model"]["name"]
    if str(name) not in MODELS:
        raise UsageError(f"models.{model}: unknown model {name!r}; {did_you_mean(str(name), MODELS)}")
    chosen = list(embeddings) if wanted is None else _labels_in(model, wanted, embeddings)
    if getattr(settings.defined(MODELS[name]), "reads_ids", False):
        yield "none", own
        return
    if reads_images(name):
        yield "pixels", own
        return
    if own.get("embeddings", {}).get("mode") == "random":
        yield "random", own
        return
    for label in chosen:
        both = embeddings[label]["embeddings"].keys() & own.get("embeddings", {}).keys()
        if both:
            raise UsageError(
                f"models.{model} and embeddings.{label} both set embeddings.{min(both)}; "
                f"name the embeddings that the model goes with, such as `with: [{next(iter(embeddings))}]`"
            )
        yield label, _merged([embeddings[label], own])


def _labels_in(model: str, wanted: Any, embeddings: Mapping[str, Settings]) -> list[str]:
    """The embeddings that a model names, each of them known and named once."""
    if not isinstance(wanted, list) or not wanted or len(set(map(str, wanted))) < len(wanted):
        raise UsageError(
            f"models.{model}: with: expected a list of embeddings, such as `[{next(iter(embeddings))}]`, "
            f"found {wanted!r:.80}"
        )
    for label in map(str, wanted):
        if label not in embeddings:
            raise UsageError(
                f"models.{model}: with: unknown embeddings {label!r}; {did_you_mean(label, embeddings)}"
            )
    return list(map(str, wanted))


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
    try:
        config = settings.parse(merged)
    except UsageError as error:
        raise UsageError(f"{dataset}, {model}, {label}: {error}") from None
    capsules = routes(config.model.name) and config.routing.name != "static"
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


def _titles(data: Sequence[str]) -> dict[str, str]:
    """What data sets of the command line are called: known names as they are, files without their ending."""
    titles: dict[str, str] = {}
    for name in data:
        title = Path(name).stem.strip(".") or Path(name).resolve().name
        if (other := titles.setdefault(title, name)) is not name:
            raise UsageError(f"--data: {other} and {name} would both be called {title}; rename one")
    return titles


def _example(key: str) -> str:
    return "mr, trec" if key == "datasets" else "capsule-b, cnn, lstm"
