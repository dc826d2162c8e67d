"""Validation and test rows cut from training rows, and folds: stratified, seeded, the same for all models."""

import warnings
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from capstext.data.sources import Corpus
from capstext.errors import CapstextError, UsageError

if TYPE_CHECKING:
    from datasets import Dataset

FOLDED = ("train", "validation", "test")


def with_validation(corpus: Corpus, *, share: float, seed: int) -> Corpus:
    """The corpus with a validation split, cut from its training rows where it has none."""
    return corpus if "validation" in corpus.splits else _with_cut(corpus, "validation", share, seed)


def with_test(corpus: Corpus, *, share: float, seed: int) -> Corpus:
    """The corpus with a test split, cut from its training rows where it has none."""
    return corpus if corpus.test_splits else _with_cut(corpus, "test", share, seed)


def fold(corpus: Corpus, *, index: int, count: int, seed: int, validation: float = 0.1) -> Corpus:
    """Fold `index` of `count` over all rows as the test split, a share of the others for validation.

    Refuses extra training rows in the place of `train`: they hold parts of the texts that would be tested.
    """
    from datasets import concatenate_datasets

    for name in corpus.extra_training:
        if corpus.splits.get(name) is corpus.splits["train"]:
            raise UsageError(
                f"{corpus.name}: folds of {name} would test on texts whose parts were trained on; "
                "set data.fold or data.train_split, not both"
            )
    rows = concatenate_datasets([corpus.splits[name] for name in FOLDED if name in corpus.splits])
    strata = _strata(rows, len(corpus.classes))
    parts = fold_rows(strata, name=corpus.name, index=index, count=count, seed=seed, validation=validation)
    splits = {name: rows.select(part) for name, part in parts.items()}
    found = {label for row in splits["train"]["labels"][:] for label in row}
    require_every_class(corpus.classes, found, f"{corpus.name}, fold {index} of {count}")
    origin = f"{corpus.origin}; fold {index} of {count}, stratified, seed {seed}"
    return replace(corpus, splits=splits, origin=origin, extra_training=())


def fold_rows(
    strata: np.ndarray, *, name: str, index: int, count: int, seed: int, validation: float = 0.1
) -> dict[str, np.ndarray]:
    """The numbers of the rows of each split of a fold."""
    from sklearn.model_selection import StratifiedKFold

    if count < 2 or not 0 <= index < count:
        raise UsageError(f"fold {index} of {count}: there must be two folds or more, counted from 0")
    if len(strata) < count:
        raise CapstextError(f"{name} has {len(strata)} rows, fewer than {count} folds")
    if np.bincount(strata).max() < count:
        raise CapstextError(f"{name}: no class has as many rows as there are folds ({count})")
    folds = StratifiedKFold(count, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a rare class is missing in some folds, as it must be
        rest, test = list(folds.split(np.zeros(len(strata)), strata))[index]
    chosen = rest[chosen_rows(strata[rest], validation, seed)]
    return {"train": np.setdiff1d(rest, chosen), "validation": chosen, "test": np.sort(test)}


def require_every_class(classes: Sequence[str], found: Container[int], where: str) -> None:
    """A class that is never shown cannot be learned."""
    missing = [name for number, name in enumerate(classes) if number not in found]
    if missing:
        raise CapstextError(f"{where}: no training rows of class {', '.join(missing[:10])}")


def _with_cut(corpus: Corpus, name: str, share: float, seed: int) -> Corpus:
    if not 0 < share <= 0.5:
        raise UsageError(f"the share of {name} rows is {share}; it must be above 0 and at most 0.5")
    train = corpus.split("train")
    chosen = chosen_rows(_strata(train, len(corpus.classes)), share, seed)
    if not len(chosen):
        raise CapstextError(
            f"{corpus.name} has too few training rows ({len(train)}) "
            f"to cut {name} rows from; give a {name} split"
        )
    rest = np.setdiff1d(np.arange(len(train)), chosen)
    splits = {**corpus.splits, "train": train.select(rest), name: train.select(chosen)}
    note = f"{len(chosen):,} {name} rows are cut from the training rows, stratified, seed {seed}"
    return replace(corpus, splits=splits, notes=(*corpus.notes, note))


def chosen_rows(strata: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Every (1/share)-th row, sorted by stratum, at random inside it; the only row of a stratum stays out."""
    order = np.random.default_rng(seed).permutation(len(strata))
    order = order[np.bincount(strata)[strata[order]] > 1]
    order = order[np.argsort(strata[order], kind="stable")]
    taken = np.floor(np.arange(len(order) + 1) * share + 0.5)
    return np.sort(order[np.diff(taken) > 0])


def _strata(rows: "Dataset", classes: int) -> np.ndarray:
    """Each row's rarest label; with one label a row that is its class, without any a stratum of its own."""
    labels: Sequence[Sequence[int]] = rows["labels"][:]
    counts = np.bincount([label for row in labels for label in row], minlength=classes)
    return np.array([min(row, key=counts.__getitem__, default=classes) for row in labels], dtype=np.int64)
