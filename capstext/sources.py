"""A name, a path or a hub id goes in; a Corpus comes out: texts and class numbers, kept in Arrow files."""

import hashlib
import json
import os
import random
import re
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np

from capstext.catalog import DATASETS, Hub, KnownDataset, Package, Protocol, known_dataset
from capstext.errors import CapstextError, UsageError, did_you_mean
from capstext.reading import (
    ErrorPolicy,
    Tally,
    documents_in,
    guess_columns,
    kind_of,
    missing_column,
    read_rows,
    sniff,
)

if TYPE_CHECKING:
    from datasets import Dataset

HUB_SECONDS = 1.5
CACHE_FORMAT = 1  # raise it when rows are read in another way: old caches are then left alone
_SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
_FILE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt", ".gz", ".parquet")
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


@dataclass(frozen=True)
class Corpus:
    """Splits with the columns text (string) and labels (a list of class numbers, of one if single-label)."""

    name: str
    splits: Mapping[str, "Dataset"]
    classes: tuple[str, ...]
    multi_label: bool
    origin: str
    text_column: str
    label_column: str
    protocol: Protocol = "official"
    notes: tuple[str, ...] = ()
    several_labels_in: frozenset[str] = frozenset()  # splits with rows of none or several labels
    extra_training: tuple[str, ...] = ()
    folds: int | None = None

    @property
    def test_splits(self) -> tuple[str, ...]:
        return tuple(name for name in self.splits if name.startswith("test"))

    def split(self, name: str) -> "Dataset":
        if name not in self.splits:
            raise UsageError(f"{self.name} has no split {name!r}; splits found: {', '.join(self.splits)}")
        return self.splits[name]


@dataclass(frozen=True)
class Location:
    """Where a known data set would be taken from."""

    kind: Literal["folder", "package", "hub"]
    where: str


@dataclass(frozen=True, kw_only=True)
class _Labelled:
    """One split: texts, and all labels in one array of codes into `names`, `lengths` of them a row."""

    texts: "Dataset"
    codes: np.ndarray
    lengths: np.ndarray
    names: tuple[str, ...]
    ordered: bool = False  # the names come in an order that means something
    listed: bool = False
    lines: np.ndarray | None = None
    file: str = ""


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What a source holds, before classes are numbered."""

    name: str
    splits: Mapping[str, _Labelled]
    origin: str
    text_column: str
    label_column: str
    notes: tuple[str, ...] = ()
    known: KnownDataset | None = None


@dataclass(frozen=True, kw_only=True)
class _Options:
    text_column: str | None
    label_column: str | None
    skip_bad: bool
    errors: ErrorPolicy


def load(
    name: str | Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    skip_bad: bool = False,
    errors: ErrorPolicy = "strict",
    classes: Sequence[str] | None = None,
    for_training: bool = True,
) -> Corpus:
    """A corpus by known name, path or hub id; with a model's `classes`, labels get the model's numbers."""
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    options = _Options(text_column=text_column, label_column=label_column, skip_bad=skip_bad, errors=errors)
    corpus = _corpus(_found(str(name), options), classes, skip_bad)
    if classes is None and for_training:
        _require_two_classes(corpus)
    return corpus


def locate(known: KnownDataset) -> Location | None:
    """A folder under CAPSTEXT_DATA, an installed data package, or the hub; None if nobody has it."""
    if home := os.environ.get("CAPSTEXT_DATA"):
        if not Path(home).is_dir():
            raise CapstextError(f"CAPSTEXT_DATA names {home}, which is no folder")
        if (folder := Path(home, known.name)).is_dir():
            return Location("folder", str(folder))
    if known.package and (file := _package_file(known.package)):
        return Location("package", str(file))
    return Location("hub", known.hub.id) if known.hub else None


def labels_in(value: Any, *, separated: bool) -> list[str]:
    """The labels of one cell: none, a name, a number, a list; in tables also `a|b`, `a;b` or a JSON list."""
    if isinstance(value, list | tuple):
        return list(dict.fromkeys(label for item in value for label in labels_in(item, separated=False)))
    if value is None or isinstance(value, dict):
        return []
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    if separated and text.startswith("["):
        with suppress(ValueError, RecursionError):
            return labels_in(json.loads(text), separated=False)
    if separated and (parts := re.split(r"[|;]", text))[1:]:
        return labels_in(parts, separated=False)
    return [text] if text else []


def _found(name: str, options: _Options) -> _Found:
    if known := known_dataset(name):
        return _from_catalog(known, options)
    path = Path(name).expanduser()
    if path.is_dir():
        return _from_folder(path, options)
    if path.exists():
        return _from_files(path.name, {"train": path}, str(path), options)
    hub_id, _, revision = name.partition("@")
    if (
        name.endswith(_FILE_SUFFIXES)
        or name.startswith((".", "/", "~"))
        or name.count("/") > 1
        or path.parent.name in _here()
    ):
        raise CapstextError(f"no such file: {name}")
    if not _HUB_ID.fullmatch(hub_id):
        raise UsageError(
            f"unknown data set {name!r} (and no file of that name); {did_you_mean(name, DATASETS)}"
        )
    return _from_hub(
        Hub(id=hub_id, revision=revision or "main", splits={}, text_column="", label_column=""), options
    )


def _here() -> set[str]:
    return {path.name for path in Path().iterdir() if path.is_dir()}


def _from_catalog(known: KnownDataset, options: _Options) -> _Found:
    location = locate(known)
    if location is None:
        raise CapstextError(
            f"{known.name} is not on the hub: set CAPSTEXT_DATA to a folder that holds {known.name}/"
        )
    if location.kind == "folder":
        preferred = replace(options, text_column=options.text_column or known.text_column)
        preferred = replace(preferred, label_column=options.label_column or known.label_column)
        found = _from_folder(Path(location.where), preferred)
    elif location.kind == "package" and known.package:
        found = _from_package(known.package, Path(location.where), options)
    elif known.hub:
        found = _from_hub(known.hub, options)
    short = tuple(
        f"{split} has {len(rows.texts):,} of {known.splits[split]:,} published rows: say so with every figure"
        for split, rows in found.splits.items()
        if location.kind != "package"
        and len(rows.texts) < known.splits.get(split, 0)
        and known.protocol != "folds"
    )
    return replace(found, name=known.name, known=known, notes=found.notes + short)


def _from_folder(folder: Path, options: _Options) -> _Found:
    import datasets

    if (folder / "dataset_dict.json").exists() or (folder / "state.json").exists():
        return _from_datasets(folder.name, datasets.load_from_disk(str(folder)), f"folder {folder}", options)
    if next(folder.rglob("*.parquet"), None):
        with _told(folder):
            loaded = datasets.load_dataset(str(folder.resolve()))
        return _from_datasets(folder.name, loaded, f"folder {folder}", options)
    tables = [path for path in sorted(folder.iterdir()) if kind_of(path) not in ("text", "folder")]
    if tables:
        splits = {_split_name(path.name.split(".")[0]): path for path in tables}
        if len(splits) < len(tables) or (len(splits) > 1 and "train" not in splits):
            raise CapstextError(f"{folder}: which table is which split? name them train, validation and test")
        return _from_files(folder.name, splits, f"folder {folder}", options)
    folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if folders and all(path.name in _SPLIT_NAMES for path in folders):
        return _from_files(
            folder.name, {_SPLIT_NAMES[path.name]: path for path in folders}, f"folder {folder}", options
        )
    return _from_files(folder.name, {"train": folder}, f"folder {folder}", options)


def _from_files(name: str, paths: Mapping[str, Path], origin: str, options: _Options) -> _Found:
    splits: dict[str, _Labelled] = {}
    notes: tuple[str, ...] = ()
    text = label = ""
    for split, path in paths.items():
        if path.suffix == ".parquet":
            import datasets

            with _told(path):
                loaded = datasets.Dataset.from_parquet(str(path))
            return _from_datasets(name, datasets.DatasetDict({split: loaded}), f"file {path}", options)
        if kind_of(path) == "folder":
            text, label, sources = "document", "folder", _class_folders(path)
        elif kind_of(path) == "text":
            raise CapstextError(
                f"{path}: a text file has no labels; give .csv, .tsv, .jsonl or a folder a class"
            )
        else:
            columns = sniff(
                path,
                text_column=options.text_column or text or None,
                label_column=options.label_column or label or None,
            )
            if columns.label is None:
                found = ", ".join(columns.found)
                raise UsageError(
                    f"{path}: no column holds labels; columns found: {found}; name it with --label-column"
                )
            text, label, sources = columns.text, columns.label, ((str(path), None),)
        splits[split], told = _read(sources, path, text, label, options)
        notes += tuple(f"{path.name}: {note}" for note in told)
    return _Found(name=name, splits=splits, origin=origin, text_column=text, label_column=label, notes=notes)


def _class_folders(folder: Path) -> tuple[tuple[str, str | None], ...]:
    folders = sorted(path for path in folder.iterdir() if path.is_dir() and documents_in(path)[0])
    if not folders:
        raise CapstextError(
            f"{folder}: neither tables nor parquet files nor a folder of text files for each class"
        )
    return tuple((str(path), path.name) for path in folders)


def _read(
    sources: tuple[tuple[str, str | None], ...],
    path: Path,
    text_column: str,
    label_column: str,
    options: _Options,
    where: tuple[str, str] | None = None,
) -> tuple[_Labelled, tuple[str, ...]]:
    """Files as an Arrow file in the cache of `datasets`; a changed file is another file."""
    import datasets

    table = kind_of(path) != "folder"
    settings = (
        str(path.resolve()),
        table,
        text_column,
        label_column,
        options.errors,
        options.skip_bad,
        where,
    )
    key = hashlib.sha256(repr((CACHE_FORMAT, settings, sources, _stamps(path))).encode()).hexdigest()
    features = datasets.Features(
        text=datasets.Value("string"),
        labels=datasets.List(datasets.Value("string")),
        line=datasets.Value("int64"),
    )
    arguments = {
        "sources": sources,
        "text_column": text_column if table else None,
        "label_column": label_column,
        "errors": options.errors,
        "skip_bad": options.skip_bad,
        "where": where,
        "key": key,
    }
    try:
        rows = datasets.Dataset.from_generator(_generated, features=features, gen_kwargs=arguments)
    except datasets.exceptions.DatasetGenerationError as error:
        if isinstance(error.__cause__, CapstextError):
            raise error.__cause__ from None
        raise
    last = json.loads(rows[len(rows) - 1]["text"])
    rows = rows.select(range(len(rows) - 1))
    tally = Tally(**last["tally"])
    if not len(rows):
        raise CapstextError(f"{path}: no rows")
    lines = rows.data.column("line").to_numpy()[: len(rows)]
    labelled = _labelled(rows, "text", "labels")
    return replace(labelled, lines=lines, listed=last["listed"], file=str(path)), tally.notes() + tuple(
        tally.faults
    )


def _generated(
    *,
    sources: tuple[tuple[str, str | None], ...],
    text_column: str | None,
    label_column: str,
    errors: ErrorPolicy,
    skip_bad: bool,
    where: tuple[str, str] | None,
    key: str,
) -> Iterator[dict[str, Any]]:
    """The rows, and a last one that holds the tally: the cache then tells it again."""
    tally = Tally()
    listed = False
    for path, name in sources:
        separated = kind_of(path) != "jsonl"
        for row in read_rows(path, text_column=text_column, errors=errors, skip_bad=skip_bad, tally=tally):
            if where is not None and row.fields[where[0]] != where[1]:
                continue
            value = row.fields.get(label_column) if name is None else name
            listed = listed or isinstance(value, list)
            labels = labels_in(value, separated=separated and name is None)
            yield {"text": row.text, "labels": labels, "line": row.line}
    yield {"text": json.dumps({"tally": vars(tally), "listed": listed}), "labels": [], "line": 0}


def _stamps(path: Path) -> list[tuple[str, int, int]]:
    files = documents_in(path)[0] if path.is_dir() else [path]
    return [(str(file), (status := file.stat()).st_size, status.st_mtime_ns) for file in files]


def _from_package(package: Package, file: Path, options: _Options) -> _Found:
    rows, _ = _read(
        ((str(file), None),),
        file,
        package.text_column,
        package.label_column,
        replace(options, errors="replace", skip_bad=False),
        where=(package.column, package.value),
    )
    names = tuple(package.renamed[name] for name in rows.names)
    test, validation, train = _fixed_cut(rows.codes, (package.test, package.validation), package.seed)
    parts = {"train": train, "validation": validation, "test": test}
    splits = {
        split: replace(_kept(rows, np.isin(np.arange(len(rows.lengths)), chosen)), names=names)
        for split, chosen in parts.items()
    }
    with suppress(PackageNotFoundError):
        package = replace(package, name=f"{package.name} {version(package.name)}")
    origin = (
        f"package {package.name}: {len(rows.texts):,} training rows, "
        f"cut by us (stratified, seed {package.seed}): "
        + ", ".join(f"{split} {len(chosen):,}" for split, chosen in parts.items())
    )
    return _Found(
        name=package.name,
        splits=splits,
        origin=origin,
        text_column=package.text_column,
        label_column=package.label_column,
        notes=(
            f"the splits are cut from the {len(rows.texts):,} training rows: not the published test rows",
        ),
    )


def _fixed_cut(codes: np.ndarray, shares: Sequence[float], seed: int) -> list[np.ndarray]:
    """Shares of every class and what remains; the standard library's generator keeps its order."""
    generator = random.Random(seed)
    parts: list[list[int]] = [[] for _ in range(len(shares) + 1)]
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code).tolist()
        generator.shuffle(rows)
        for part, share in zip(parts, shares, strict=False):
            count = round(share * int((codes == code).sum()))
            part.extend(rows[:count])
            del rows[:count]
        parts[-1].extend(rows)
    return [np.sort(np.array(part)) for part in parts]


def _package_file(package: Package) -> Path | None:
    spec = find_spec(package.module)
    folders = (spec.submodule_search_locations if spec else None) or ()
    return next((file for folder in folders if (file := Path(folder, package.file)).exists()), None)


def _from_hub(hub: Hub, options: _Options) -> _Found:
    import datasets

    online = not datasets.config.HF_HUB_OFFLINE and _hub_answers()
    try:
        with _told(hub.id), _offline(not online):
            loaded = datasets.load_dataset(hub.id, revision=hub.revision)
    except CapstextError as error:
        if online:
            raise
        raise CapstextError(
            f"the hub cannot be reached and {hub.id} is not in its cache; go online and unset "
            "HF_HUB_OFFLINE, or set CAPSTEXT_DATA to a folder that holds the data set"
        ) from error
    if hub.splits:
        loaded = {ours: loaded[theirs] for ours, theirs in hub.splits.items() if theirs in loaded}
        columns = (options.text_column or hub.text_column, options.label_column or hub.label_column)
        options = replace(options, text_column=columns[0], label_column=columns[1])
    found = _from_datasets(hub.id, loaded, f"hub {hub.id}@{hub.revision}", options)
    named = {
        split: replace(rows, names=tuple(hub.renamed.get(name, name) for name in rows.names))
        for split, rows in found.splits.items()
    }
    return replace(found, splits=named)


@contextmanager
def _told(source: object) -> Iterator[None]:
    """What `datasets` raises, in one line."""
    import datasets

    try:
        yield
    except (datasets.exceptions.DatasetsError, OSError, ValueError, RuntimeError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise CapstextError(f"{source}: {first}") from error


@contextmanager
def _offline(wanted: bool) -> Iterator[None]:
    """Let `datasets` look in its cache only: without a network it would try for half a minute."""
    import datasets
    import huggingface_hub.constants as hub

    before = datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE
    if wanted:
        datasets.config.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE = before


def _hub_answers() -> bool:
    """Whether the hub, or the proxy before it, takes a connection soon; looking up its name is timed too."""
    import huggingface_hub.constants as hub

    address = urlsplit(hub.ENDPOINT)
    if proxy := getproxies().get(address.scheme):
        address = urlsplit(proxy)
    port = address.port or (443 if address.scheme == "https" else 80)
    answers: list[bool] = []

    def knock() -> None:
        with suppress(OSError):
            socket.create_connection((address.hostname or "", port), timeout=HUB_SECONDS).close()
            answers.append(True)

    thread = Thread(target=knock, daemon=True)
    thread.start()
    thread.join(HUB_SECONDS)
    return bool(answers)


def _from_datasets(name: str, loaded: Any, origin: str, options: _Options) -> _Found:
    import datasets

    if isinstance(loaded, datasets.Dataset):
        loaded = {"train": loaded}
    simple = (datasets.Value, datasets.ClassLabel, datasets.List)
    shown = next((rows for rows in loaded.values() if len(rows)), None)
    if shown is None:
        raise CapstextError(f"{origin}: no rows")
    first = shown.select_columns([key for key, kind in shown.features.items() if isinstance(kind, simple)])
    columns = guess_columns(
        first.select(range(min(100, len(first)))).to_list(),
        file=origin,
        text_column=options.text_column,
        label_column=options.label_column,
    )
    if columns.label is None:
        raise UsageError(
            f"{origin}: no column holds labels; columns found: {', '.join(columns.found)}; "
            "name it with --label-column"
        )
    splits: dict[str, _Labelled] = {}
    notes: list[str] = []
    for split, rows in loaded.items():
        for column in (columns.text, columns.label):
            if column not in rows.column_names:
                missing_column(f"{origin}, split {split}", column, rows.column_names)
        labelled = _labelled(rows, columns.text, columns.label)
        if len(rows) and not labelled.listed and not labelled.lengths.any() and len(loaded) > 1:
            notes.append(f"split {split} has no labels and is left out")
        else:
            splits[_split_name(split)] = replace(labelled, file=f"{origin}, split {split}")
    return _Found(
        name=name,
        splits=splits,
        origin=origin,
        text_column=columns.text,
        label_column=columns.label,
        notes=tuple(notes),
    )


def _labelled(rows: "Dataset", text_column: str, label_column: str) -> _Labelled:
    """Take a split's labels apart with Arrow; its texts stay where they are."""
    import datasets
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = rows.flatten_indices() if rows._indices is not None else rows
    feature = rows.features[label_column]
    array = rows.data.column(label_column).combine_chunks()
    listed = isinstance(feature, datasets.List)
    if listed:
        feature = feature.feature
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        flat = pc.list_flatten(array)
    else:
        lengths = np.ones(len(array), dtype=np.int64)
        flat = array
    owner = np.repeat(np.arange(len(lengths)), lengths)
    names: tuple[str, ...]
    if isinstance(feature, datasets.ClassLabel):
        codes = pc.fill_null(flat, -1).to_numpy(zero_copy_only=False)
        names = tuple(feature.names)
        real = codes >= 0
    else:
        if pa.types.is_floating(flat.type):
            flat = pa.array(
                flat.to_pandas().map(lambda value: labels_in(value, separated=False)[0], "ignore")
            )
        encoded = pc.utf8_trim_whitespace(flat.cast(pa.string())).dictionary_encode()
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        names = tuple(encoded.dictionary.to_pylist())
        real = (codes >= 0) & ~np.isin(codes, [code for code, name in enumerate(names) if not name])
    texts = rows.select_columns([text_column])
    texts = texts if text_column == "text" else texts.rename_column(text_column, "text")
    if texts.features["text"] != datasets.Value("string"):
        texts = texts.cast_column("text", datasets.Value("string"))
    if texts.data.column("text").null_count:
        texts = texts.map(_without_null, batched=True)
    return _Labelled(
        texts=texts,
        codes=codes[real].astype(np.int64),
        lengths=np.bincount(owner[real], minlength=len(lengths)).astype(np.int64),
        names=names,
        ordered=isinstance(feature, datasets.ClassLabel),
        listed=listed,
    )


def _without_null(batch: dict[str, list[str | None]]) -> dict[str, list[str]]:
    return {"text": [text or "" for text in batch["text"]]}


def _corpus(found: _Found, classes: Sequence[str] | None, skip_bad: bool) -> Corpus:
    notes = list(found.notes)
    known = found.known
    several = {split for split, rows in found.splits.items() if _has_several(rows)}
    multi_label = known.multi_label if known else bool(several)
    splits = {
        split: rows if multi_label or split in several else _without_unlabelled(rows, skip_bad, notes)
        for split, rows in found.splits.items()
    }
    numbered = tuple(classes) if classes is not None else _class_order(splits, known)
    corpus_splits: dict[str, Dataset] = {}
    for split, rows in sorted(splits.items(), key=lambda item: _split_place(item[0])):
        if classes is not None:
            rows = _only_known(rows, split, set(classes), notes)
        corpus_splits[split] = _numbered(rows, numbered)
    if classes is not None and not any(len(rows) for rows in corpus_splits.values()):
        raise CapstextError(
            f"{found.origin}: none of its labels is a class of the model "
            f"({', '.join(numbered[:20])}); {notes[-1]}"
        )
    return Corpus(
        name=found.name,
        splits=corpus_splits,
        classes=numbered,
        multi_label=multi_label,
        origin=found.origin,
        text_column=found.text_column,
        label_column=found.label_column,
        protocol=known.protocol if known else "official",
        notes=tuple(notes),
        several_labels_in=frozenset(several),
        extra_training=tuple(name for name in known.extra_training if name in splits) if known else (),
        folds=known.folds if known else None,
    )


def _has_several(rows: _Labelled) -> bool:
    return bool(
        (rows.lengths > 1).any() or (rows.listed and (rows.lengths != 1).any() and rows.lengths.any())
    )


def _without_unlabelled(rows: _Labelled, skip_bad: bool, notes: list[str]) -> _Labelled:
    keep = rows.lengths > 0
    if keep.all():
        return rows
    if not keep.any():
        raise CapstextError(f"{rows.file}: no labels")
    at = int(np.flatnonzero(~keep)[0])
    where = f"{rows.file}, row {at + 1}" if rows.lines is None else f"{rows.file}:{rows.lines[at]}"
    if not skip_bad:
        raise CapstextError(f"{where}: no label; mend it or pass --skip-bad")
    notes.append(f"{(~keep).sum():,} × row without a label skipped, the first at {where}")
    return _kept(rows, keep)


def _only_known(rows: _Labelled, split: str, classes: set[str], notes: list[str]) -> _Labelled:
    """Only the rows all of whose labels the model knows; the others are counted and their labels named."""
    strange = np.array([name not in classes for name in rows.names], dtype=bool)
    strange_labels = strange[rows.codes] if len(rows.codes) else np.zeros(0, dtype=bool)
    if not strange_labels.any():
        return rows
    owner = np.repeat(np.arange(len(rows.lengths)), rows.lengths)
    keep = np.bincount(owner[strange_labels], minlength=len(rows.lengths)) == 0
    counts = np.bincount(rows.codes[strange_labels], minlength=len(rows.names))
    named = ", ".join(
        f"{rows.names[code]} ({counts[code]:,})" for code in np.argsort(-counts)[:10] if counts[code]
    )
    notes.append(
        f"split {split}: {(~keep).sum():,} rows left out, their labels unknown to the model: {named}"
    )
    return _kept(rows, keep)


def _kept(rows: _Labelled, keep: np.ndarray) -> _Labelled:
    return replace(
        rows,
        texts=rows.texts.select(np.flatnonzero(keep)),
        codes=rows.codes[np.repeat(keep, rows.lengths)],
        lengths=rows.lengths[keep],
        lines=None if rows.lines is None else rows.lines[keep],
    )


def _class_order(splits: Mapping[str, _Labelled], known: KnownDataset | None) -> tuple[str, ...]:
    used = dict.fromkeys(name for rows in splits.values() for name in _used_names(rows))
    if known and set(used) <= set(known.classes):
        return known.classes
    if all(rows.ordered for rows in splits.values()):
        return tuple(dict.fromkeys(name for rows in splits.values() for name in rows.names))
    numeric = all(re.fullmatch(r"-?\d{1,18}", name) for name in used)
    return tuple(sorted(used, key=int if numeric else None))


def _used_names(rows: _Labelled) -> Iterable[str]:
    return (rows.names[code] for code in np.unique(rows.codes))


def _numbered(rows: _Labelled, classes: Sequence[str]) -> "Dataset":
    import datasets
    import pyarrow as pa

    number = {name: index for index, name in enumerate(classes)}
    table = np.array([number.get(name, -1) for name in rows.names] or [0], dtype=np.int64)
    values = table[rows.codes] if len(rows.codes) else np.zeros(0, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(rows.lengths)]).astype(np.int32)
    state = (rows.texts._fingerprint, values.tobytes(), offsets.tobytes())
    return rows.texts.add_column(
        "labels",
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(values)),
        new_fingerprint=datasets.fingerprint.Hasher.hash(state),
        feature=datasets.List(datasets.Value("int64")),
    )


def _require_two_classes(corpus: Corpus) -> None:
    if "train" not in corpus.splits:
        return
    flat = corpus.splits["train"].data.column("labels").combine_chunks().flatten()
    used = [corpus.classes[number] for number in np.unique(flat.to_numpy())]
    if len(used) < 2:
        raise CapstextError(
            f"{corpus.origin}: column {corpus.label_column!r} has one class only ({', '.join(used)}); "
            "a classifier needs two"
        )


def _split_place(name: str) -> int:
    return 0 if name.startswith("train") else 1 if name == "validation" else 2


def _split_name(name: str) -> str:
    return _SPLIT_NAMES.get(name.casefold(), name)
