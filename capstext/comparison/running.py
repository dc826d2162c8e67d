"""A whole comparison: check all, measure the pace, search, run; and begin again where it was stopped."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capstext import config as settings
from capstext import runs, vectors
from capstext.comparison import records, tasks
from capstext.comparison.grid import Cell, Planned
from capstext.comparison.tasks import Task
from capstext.comparison.workers import Done, Failure, Tell, Workers
from capstext.config import Config
from capstext.errors import CapstextError, UsageError
from capstext.experiment import FREE
from capstext.files import alone_in, refuse_unwritable
from capstext.hub import pretrained_folder
from capstext.models import reads_images
from capstext.preparation import refuse_bad_settings, split_corpus

RUNS, TRIALS, UNFINISHED = "runs", "trials", ".unfinished"

Say = Callable[[str], None]
Begin = Callable[[str, Sequence[Task], int], None]  # a stage, its tasks, and how many are done already


@dataclass(frozen=True)
class Place:
    """Where a comparison keeps what it has."""

    folder: Path

    def run(self, planned: Planned) -> Path:
        return self.folder / RUNS / planned.path

    def trial(self, cell: Cell, name: str) -> Path:
        return self.folder / TRIALS / cell.folder / f"{name}.json"

    def unfinished(self, file: Path) -> Path:
        return self.folder / UNFINISHED / file.relative_to(self.folder).with_suffix("")


def compare(
    plan: Sequence[Planned],
    folder: Path,
    *,
    workers: int,
    resume: bool,
    say: Say,
    begin: Begin,
    tell: Tell,
    done: Done,
) -> list[Failure]:
    """Make every run that is not made yet; what failed is returned."""
    place, unfinished = Place(folder), folder / UNFINISHED
    if unfinished.is_dir():
        with alone_in(unfinished, doing="comparison"):
            pass  # a second one is told at once
    check_finished(plan, place, resume=resume)
    check_settings(cells(plan), say)
    unfinished.mkdir(parents=True, exist_ok=True)
    with alone_in(unfinished, doing="comparison"):
        check_finished(plan, place, resume=resume)  # again: another may have come and gone meanwhile
        with Workers(min(workers, len(plan)), tell=tell, done=done) as pool:
            failures = _stages(plan, place, pool, begin)
        if not failures:
            shutil.rmtree(unfinished, ignore_errors=True)  # another may be knocking at its lock
    return failures


def _stages(plan: Sequence[Planned], place: Place, pool: Workers, begin: Begin) -> list[Failure]:
    """One after the other, as each needs what the one before has left."""
    for name, stage in (("pace", _paces), ("search", _trials), ("run", _runs)):
        wanted = list(stage(plan, place))
        for task in wanted:
            if task.run is None:
                tasks.read_trial(task.file, task.config)  # one of other settings is named now
        todo = [task for task in wanted if not task.file.exists()]
        if todo:
            begin(name, todo, len(wanted) - len(todo))
            if failures := pool.perform(todo):
                return failures
    return []


def cells(plan: Sequence[Planned]) -> list[Cell]:
    return list({planned.cell.folder: planned.cell for planned in plan}.values())


def check_finished(plan: Sequence[Planned], place: Place, *, resume: bool) -> None:
    """Every run file that stands there already must be whole and of the same settings."""
    runs.refuse_taken(place.folder, resume=True)
    for cell in cells(plan):
        for part in (RUNS, TRIALS, UNFINISHED):
            refuse_unwritable(place.folder / part / cell.folder)
    found = [planned for planned in plan if place.run(planned).exists()]
    if found and not resume:
        raise CapstextError(
            f"{place.folder / RUNS}: {len(found)} of {len(plan)} runs are made already; "
            "go on with --resume, or choose another --out"
        )
    begun = next((place.folder / UNFINISHED).glob("*/"), None)
    if begun is not None and not resume:
        raise CapstextError(
            f"{place.folder}: holds an unfinished comparison; go on with --resume, or choose another --out"
        )
    for planned in found:
        path = place.run(planned)
        _refuse_other_settings(path, records.load(path).config, _expected(planned), planned.cell)


def check_settings(all_cells: Sequence[Cell], say: Say) -> None:
    """All that can be known to fail, before hours are spent: settings, data, folds, vectors, encoders."""
    corpora: dict[str, Any] = {}
    for cell in all_cells:
        config = cell.config
        with _naming(cell):
            tried = [settings.changed(config, chosen) for chosen in cell.choices or ({},)]
            for other in tried:
                refuse_bad_settings(other)
            if any(other in tried[:place] for place, other in enumerate(tried)):
                raise UsageError("search: two combinations are the same settings; give each value once")
        key = repr(config.data)
        if key not in corpora:
            say(f"checking {cell.dataset}")
            corpora[key] = _checked_corpus(cell)
        with _naming(cell):
            refuse_bad_settings(config, multi_label=corpora[key].multi_label)
            _check_embeddings(config)


@contextmanager
def _naming(cell: Cell) -> Iterator[None]:
    """An error about settings tells whose they are."""
    try:
        yield
    except CapstextError as error:
        raise type(error)(f"{cell}: {error}") from None


def _checked_corpus(cell: Cell) -> Any:
    """The data set, with every fold looked at: a class may be missing in one."""
    data = cell.config.data
    folds: Iterable[int | None] = range(data.folds) if "folds" in cell.protocol else (None,)
    for fold in folds:
        corpus = split_corpus(replace(cell.config, data=replace(data, fold=fold)))
    return corpus


def _check_embeddings(config: Config) -> None:
    if reads_images(config.model.name):
        return
    embeddings, tokens = config.embeddings, config.tokens
    if tokens.kind == "huggingface" and tokens.source is not None:
        pretrained_folder(tokens.source, tokens.revision)
    if embeddings.mode in ("frozen", "fine-tuned"):
        pretrained_folder(str(embeddings.encoder), embeddings.revision)
    elif embeddings.mode != "random" and embeddings.vectors != "auto":
        if vectors.is_encoder(embeddings.vectors):
            pretrained_folder(embeddings.vectors)
        else:
            vectors.read(embeddings.vectors)


def _paces(plan: Sequence[Planned], place: Place) -> Iterable[Task]:
    """One epoch of each cell whose budget is in seconds."""
    for cell in cells(plan):
        if cell.budget.seconds:
            yield _trial(cell, _one_epoch(cell), place, "pace")


def _trials(plan: Sequence[Planned], place: Place) -> Iterable[Task]:
    """Every combination that is tried, on the validation rows of the first fold or seed."""
    for cell in cells(plan):
        base = _with_epochs(cell, place)
        for number, choice in enumerate(cell.choices):
            tried = _first_run(cell, settings.changed(base, choice))
            yield _trial(cell, tried, place, f"trial-{number}")


def _runs(plan: Sequence[Planned], place: Place) -> Iterable[Task]:
    chosen = {cell.folder: _chosen(cell, place) for cell in cells(plan)}
    for planned in plan:
        config, search = chosen[planned.cell.folder]
        file = place.run(planned)
        yield Task(
            title=str(planned),
            cell=planned.cell,
            config=planned.config(config),
            file=file,
            unfinished=place.unfinished(file),
            run=planned,
            search=search,
        )


def _trial(cell: Cell, config: Config, place: Place, name: str) -> Task:
    file = place.trial(cell, name)
    return Task(
        title=f"{cell}, {name}", cell=cell, config=config, file=file, unfinished=place.unfinished(file)
    )


def _first_run(cell: Cell, config: Config) -> Config:
    return Planned(cell, seed=0, fold=0 if "folds" in cell.protocol else None).config(config)


def _one_epoch(cell: Cell) -> Config:
    return _first_run(cell, settings.changed(cell.config, {"training.epochs": 1}))


def _with_epochs(cell: Cell, place: Place) -> Config:
    if not cell.budget.seconds:
        return cell.config
    pace = tasks.read_trial(place.trial(cell, "pace"), _one_epoch(cell))
    assert pace is not None, "the pace is measured before it is asked for"
    epochs = max(1, int(cell.budget.seconds / max(pace.seconds, 1e-3)))
    return settings.changed(cell.config, {"training.epochs": epochs})


def _chosen(cell: Cell, place: Place) -> tuple[Config, dict[str, Any] | None]:
    """The settings with the best validation score, and how they were found."""
    base = _with_epochs(cell, place)
    if not cell.choices:
        return base, None
    tried: list[tuple[float, dict[str, Any]]] = []
    for number, choice in enumerate(cell.choices):
        config = _first_run(cell, settings.changed(base, choice))
        trial = tasks.read_trial(place.trial(cell, f"trial-{number}"), config)
        assert trial is not None, "all trials are made before one is chosen"
        tried.append((trial.validation, choice))
    _, best = max(tried, key=lambda scored: scored[0])
    listed = [{"settings": choice, "validation": validation} for validation, choice in tried]
    return settings.changed(base, best), {"chosen": best, "tried": listed}


def _expected(planned: Planned) -> dict[str, Any]:
    return runs.resolved(planned.config(planned.cell.config)).as_dict()


def _refuse_other_settings(path: Path, found: dict[str, Any], expected: dict[str, Any], cell: Cell) -> None:
    """A run of other settings is no run of this comparison; what is searched or measured may differ."""
    try:  # a run from before a setting had a name had its default
        found = runs.resolved(settings.parse(found)).as_dict()
    except (CapstextError, KeyError) as error:
        raise CapstextError(
            f"{path}: a finished run of another version: {error}; choose another --out"
        ) from None
    free = FREE | {key for choice in cell.choices for key in choice}
    if cell.budget.seconds:
        free = free | {"training.epochs"}
    for section, values in expected.items():
        for key, value in values.items():
            before = found.get(section, {}).get(key)
            if _without_folder(before) != _without_folder(value) and f"{section}.{key}" not in free:
                raise CapstextError(
                    f"{path}: a finished run with {section}.{key} {before}, not {value}; it is kept: "
                    "choose another --out, or remove it"
                )


def _without_folder(value: Any) -> Any:
    """A run may go on where the same files stand in another folder."""
    return Path(value).name if isinstance(value, str) else value
