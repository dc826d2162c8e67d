"""A Corpus, and how the labelled splits of a source become one: which classes there are, in which order."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from capstext.data.catalog import Hub, KnownDataset, Package, Protocol
from capstext.data.labels import LabelledTexts
from capstext.data.lines import ErrorPolicy
from capstext.errors import CapstextError, UsageError

if TYPE_CHECKING:
    from datasets import Dataset


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


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a source is to be read."""

    text_column: str | None
    label_column: str | None
    skip_bad: bool
    errors: ErrorPolicy

    def or_columns_of(self, known: KnownDataset | Package | Hub) -> "Options":
        text, label = self.text_column or known.text_column, self.label_column or known.label_column
        return replace(self, text_column=text, label_column=label)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a source holds, before classes are numbered."""

    name: str
    splits: Mapping[str, LabelledTexts]
    origin: str
    text_column: str
    label_column: str
    notes: tuple[str, ...] = ()


def numbered_corpus(
    found: Found, known: KnownDataset | None, classes: Sequence[str] | None, *, skip_bad: bool
) -> Corpus:
    """The corpus with its own classes, or with those of a model: rows with other labels are left out."""
    notes = list(found.notes)
    several = frozenset(split for split, rows in found.splits.items() if rows.has_several)
    multi_label = known.multi_label if known else bool(several)
    order = sorted(found.splits, key=lambda split: (not split.startswith("train"), split != "validation"))
    splits = {
        split: rows if multi_label or split in several else _without_unlabelled(rows, skip_bad, notes)
        for split, rows in ((split, found.splits[split]) for split in order)
    }
    if classes is not None:
        splits = {split: _only_known(rows, split, classes, notes) for split, rows in splits.items()}
        if not any(len(rows.lengths) for rows in splits.values()):
            raise CapstextError(
                f"{found.origin}: none of its labels is a class of the model "
                f"({', '.join(classes[:20])}); {notes[-1]}"
            )
    numbered = tuple(classes) if classes is not None else _class_order(splits, known)
    return Corpus(
        name=known.name if known else found.name,
        splits={split: _numbered(rows, numbered) for split, rows in splits.items()},
        classes=numbered,
        multi_label=multi_label,
        origin=found.origin,
        text_column=found.text_column,
        label_column=found.label_column,
        protocol=known.protocol if known else "official",
        notes=tuple(notes),
        several_labels_in=several,
        extra_training=tuple(name for name in known.extra_training if name in splits) if known else (),
        folds=known.folds if known else None,
    )


def require_two_classes(corpus: Corpus) -> None:
    if "train" not in corpus.splits:
        return
    flat = corpus.splits["train"].data.column("labels").combine_chunks().flatten()
    used = [corpus.classes[number] for number in np.unique(flat.to_numpy())]
    if len(used) < 2:
        raise CapstextError(
            f"{corpus.origin}: column {corpus.label_column!r} has one class only ({', '.join(used)}); "
            "a classifier needs two"
        )


def _without_unlabelled(rows: LabelledTexts, skip_bad: bool, notes: list[str]) -> LabelledTexts:
    keep = rows.lengths > 0
    if keep.all():
        return rows
    if not keep.any():
        raise CapstextError(f"{rows.file}: no labels")
    first = rows.place(int(keep.argmin()))
    if not skip_bad:
        raise CapstextError(f"{first}: no label; mend it or pass --skip-bad")
    notes.append(f"{(~keep).sum():,} × row without a label skipped, the first at {first}")
    return rows.kept(keep)


def _only_known(rows: LabelledTexts, split: str, classes: Sequence[str], notes: list[str]) -> LabelledTexts:
    """Only the rows all of whose labels the model knows; the others are counted and their labels named."""
    strange = ~np.isin(rows.names, classes)[rows.codes]
    if not strange.any():
        return rows
    owners = np.repeat(np.arange(len(rows.lengths)), rows.lengths)
    keep = np.bincount(owners[strange], minlength=len(rows.lengths)) == 0
    counts = np.bincount(rows.codes[strange], minlength=len(rows.names))
    named = ", ".join(
        f"{rows.names[code]} ({counts[code]:,})" for code in np.argsort(-counts)[:10] if counts[code]
    )
    notes.append(
        f"split {split}: {(~keep).sum():,} rows left out, their labels unknown to the model: {named}"
    )
    return rows.kept(keep)


def _class_order(splits: Mapping[str, LabelledTexts], known: KnownDataset | None) -> tuple[str, ...]:
    """As published, as the source has them, or sorted; numbers as numbers."""
    used = {rows.names[code] for rows in splits.values() for code in np.unique(rows.codes)}
    if known and used <= set(known.classes):
        return known.classes
    if all(rows.ordered for rows in splits.values()):
        return tuple(dict.fromkeys(name for rows in splits.values() for name in rows.names))
    numeric = all(re.fullmatch(r"-?\d{1,18}", name) for name in used)
    return tuple(sorted(used, key=int if numeric else None))


def _numbered(rows: LabelledTexts, classes: Sequence[str]) -> "Dataset":
    import datasets
    import pyarrow as pa

    number = {name: index for index, name in enumerate(classes)}
    numbers = np.array([number.get(name, -1) for name in rows.names], dtype=np.int64)[rows.codes]
    offsets = np.concatenate([[0], np.cumsum(rows.lengths)]).astype(np.int32)
    state = (rows.texts._fingerprint, numbers.tobytes(), offsets.tobytes())
    return rows.texts.add_column(
        "labels",
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers)),
        new_fingerprint=datasets.fingerprint.Hasher.hash(state),
        feature=datasets.List(datasets.Value("int64")),
    )
