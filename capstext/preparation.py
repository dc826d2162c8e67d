"""From a config to all that training needs: splits, model, rows; texts and images part and meet again."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from tokenizers import Tokenizer

from capstext import image_track, text_track
from capstext.config import Config
from capstext.data.image_corpora import ImageCorpus
from capstext.data.sources import Corpus
from capstext.devices import resolve_device
from capstext.errors import CapstextError, UsageError
from capstext.losses import Loss, loss_by_name
from capstext.memory import Memory
from capstext.models import Model, reads_images
from capstext.rows import Rows
from capstext.runs import Run

Say = Callable[[str], None]
Count = Callable[[int, int], None]  # so many done, of so many

FEWEST_IN_BATCH, MOST_IN_BATCH = 4, 50


@dataclass(frozen=True)
class Prepared:
    """A model that knows nothing yet, and the rows to teach and to test it with."""

    config: Config  # as given, with what could only be known from data and encoder
    corpus: Corpus | ImageCorpus
    tokenizer: Tokenizer | None
    model: Model
    rows: dict[str, Rows]
    loss: Loss

    def fingerprint(self) -> str:
        """A short key for classes and rows, the same wherever they were read from."""
        digest = hashlib.sha256(repr(self.corpus.classes).encode())
        for split in self.rows.values():
            digest.update(split.fingerprint().encode())
        return digest.hexdigest()


class Track(Protocol):
    """What the modules text_track and image_track have in common."""

    @property
    def refuse_bad_settings(self) -> Callable[[Config], None]: ...
    @property
    def split(self) -> Callable[..., Any]: ...
    @property
    def read(self) -> Callable[..., Any]: ...
    @property
    def describe(self) -> Callable[[Any], str]: ...
    @property
    def rows(self) -> Callable[[Run, Any, str], Rows]: ...
    @property
    def build(self) -> Callable[..., Any]: ...


def prepare(
    config: Config,
    *,
    errors: Any = "strict",
    skip_bad: bool = False,
    say: Say = lambda message: None,
    count: Count = lambda done, of: None,
    memory: Memory | None = None,
) -> Prepared:
    """Load, split and build; the same config gives the same result."""
    refuse_bad_settings(config)
    memory, track = memory or Memory(most=0), _track(config)
    corpus = memory.get(
        ("corpus", config.data), lambda: track.split(config, errors=errors, skip_bad=skip_bad)
    )
    counts = ", ".join(f"{name} {len(split):,}" for name, split in corpus.splits.items())
    say(
        f"{corpus.name}: {corpus.origin} ({track.describe(corpus)}; "
        f"{len(corpus.classes)} classes; rows: {counts})"
    )
    for note in corpus.notes:
        say(f"{corpus.name}: {note}")
    loss = _loss(config, multi_label=corpus.multi_label)
    torch.manual_seed(config.training.seed)
    config, tokenizer, model, rows = track.build(config, corpus, memory=memory, say=say, count=count)
    batch_size = config.training.batch_size or _batch_size(len(rows["train"]))
    config = replace(config, training=replace(config.training, batch_size=batch_size))
    return Prepared(config, corpus, tokenizer, model, rows, loss)


def split_corpus(config: Config, *, errors: Any = "strict", skip_bad: bool = False) -> Corpus | ImageCorpus:
    """The texts or images of a config with the splits train, validation and test."""
    return _track(config).split(config, errors=errors, skip_bad=skip_bad)


def held_out(
    run: Run, *, data: str | None, split: str | None, say: Say, **reading: Any
) -> tuple[Corpus | ImageCorpus, str, Rows]:
    """The rows to test a run on: the test rows of its own data, or those of other data, with its classes."""
    track = _track(run.config)
    if data is None:
        try:
            corpus = track.split(run.config, errors=reading["errors"], skip_bad=reading["skip_bad"])
        except CapstextError as error:
            raise type(error)(
                f"the data that {run.folder} was trained on: {error}; or name others with --data"
            ) from None
        if corpus.classes != run.classes:
            raise UsageError(
                f"{corpus.name} has other classes now than when {run.folder} was trained; give --data"
            )
    else:
        corpus = track.read(run, data, **reading)
    if split is None:
        split = next(iter(corpus.test_splits), None) or next(iter(corpus.splits))
    say(f"{corpus.name}: {corpus.origin}, {split} ({len(corpus.split(split)):,} rows)")
    for note in corpus.notes:
        say(f"{corpus.name}: {note}")
    corpus = replace(corpus, multi_label=run.multi_label)
    return corpus, split, track.rows(run, corpus, split)


def refuse_bad_settings(config: Config, *, multi_label: bool = False) -> None:
    """What is wrong whatever the data: told before they are read, which may take minutes."""
    resolve_device(config.training.device)
    _loss(config, multi_label=multi_label)
    _track(config).refuse_bad_settings(config)


def _track(config: Config) -> Track:
    if reads_images(config.model.name):
        return image_track
    return text_track


def _loss(config: Config, *, multi_label: bool) -> Loss:
    try:
        return loss_by_name(config.loss.name, multi_label=multi_label, **config.loss.options)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _batch_size(rows: int) -> int:
    """Few rows still make a hundred steps an epoch, or nothing would be learned from them in a few epochs."""
    return min(MOST_IN_BATCH, max(FEWEST_IN_BATCH, rows // 100))
