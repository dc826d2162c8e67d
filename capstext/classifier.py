"""Texts in, class probabilities out: any number of texts, in constant memory, in their order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from capstext import runs, tokenizers
from capstext.batching import batches_by_length, pad
from capstext.devices import resolve_device
from capstext.errors import CapstextError
from capstext.explain import Word, relevances, words
from capstext.models.text import TextModel

Item = TypeVar("Item")

# So many texts are read, tokenised and sorted by length together; the first window is small: quick answers.
FIRST_WINDOW, WINDOW = 64, 4096
WINDOW_CHARACTERS = 4_000_000
# Padded tokens of one batch: what the caches of a core hold of a Capsule-B, or what keeps a GPU busy.
BATCH_TOKENS = {"cpu": 2048, "cuda": 32_768}
# All that is ever needed of a text; tokenizers.encode takes one of more than 64 characters a token for cut.
CHARACTERS_PER_TOKEN = 65


class Answer(NamedTuple):
    """A text's score for each class, what there is to know about the text, and its words where asked for."""

    scores: NDArray[np.float32]
    empty: bool
    cut: bool
    words: list[Word]


class Encoded(NamedTuple):
    """Token ids of texts; a text without any is empty, a text with more than the model reads is cut."""

    ids: list[list[int]]
    empty: list[bool]
    cut: list[bool]


class _Scored(NamedTuple):
    """Some rows of a window: their probabilities [rows, classes] and words."""

    rows: list[int]
    scores: NDArray[np.float32]
    words: list[list[Word]]


class Classifier:
    """A trained model, ready for texts."""

    def __init__(self, run: runs.Run) -> None:
        if run.tokenizer is None or not isinstance(run.model, TextModel):
            raise CapstextError(f"{run.folder}: its model reads images; load it with ImageClassifier")
        self.run, self.model, self.tokenizer = run, run.model, run.tokenizer
        self.classes = run.classes
        self.multi_label = run.multi_label
        self.max_length = run.config.tokens.max_length
        self.max_characters = self.max_length * CHARACTERS_PER_TOKEN
        self.device = run.model.calibration.prior.device
        self._padding_id = tokenizers.padding_id(run.tokenizer)
        self._special_tokens = run.tokenizer.num_special_tokens_to_add(is_pair=False)

    @classmethod
    def load(cls, run: str | Path, device: str = "auto") -> "Classifier":
        """Read a run folder; `device` is auto, cpu or cuda."""
        return cls(runs.load(run, device=resolve_device(device)))

    def predict(self, texts: Iterable[str], *, threshold: float = 0.5) -> list[str] | list[list[str]]:
        """The label of each text; of a multi-label model all labels that score at least `threshold`."""
        scores = self.predict_proba(texts)
        return labels(scores, self.classes, multi_label=self.multi_label, threshold=threshold)

    def predict_proba(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Probabilities [texts, classes]; each row adds up to 1 unless the model is multi-label."""
        if isinstance(texts, str):
            raise TypeError("expected a list of texts, found one text; put it in a list")
        scores = [answer.scores for _, answer in self.stream(texts, text=_as_text)]
        return np.stack(scores) if scores else np.empty((0, len(self.classes)), dtype=np.float32)

    def stream(
        self, items: Iterable[Item], *, text: Callable[[Item], str], explain: bool = False
    ) -> Iterator[tuple[Item, Answer]]:
        """Each item with its answer, in order; `explain` adds the words and their parts in the best class.

        Items are drawn in the caller's thread, so that an interrupt never waits for a read to end. Where
        drawing fails, the items before the fault are answered first.
        """
        threads = torch.get_num_threads()
        # batches side by side, a thread each: threads within a batch would wait for each other at every step
        workers = threads if self.device.type == "cpu" else 1
        pool = ThreadPoolExecutor(max_workers=workers, initializer=torch.set_num_threads, initargs=(1,))
        try:
            # a window is tokenised while the one before it is scored and the one before that is written
            windows: deque[_Window[Item]] = deque()
            fault = None
            for drawn in _windows(items, text):
                if isinstance(drawn, CapstextError):
                    fault = drawn
                    break
                windows.append(_Window(self, pool, drawn, [text(item) for item in drawn], explain))
                if len(windows) > 1:
                    windows[-2].start_scoring()
                if len(windows) > 2:
                    yield from windows.popleft().answers()
            for window in windows:
                window.start_scoring()
            for window in windows:
                yield from window.answers()
            if fault is not None:
                raise fault
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)

    def explain(self, text: str, label: str) -> list[Word]:
        """The words that the model read, in their order, each with its part in the label's log-odds."""
        encoded = self.encode([text])
        if encoded.empty[0]:
            return []
        ids, mask = self._padded(encoded.ids)
        target = torch.tensor([self.classes.index(label)], device=self.device)
        return self._words(text, encoded.ids[0], relevances(self.model, ids, mask, target)[0])

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Token ids as the model reads them."""
        ids, cut_texts = tokenizers.encode(self.tokenizer, texts, self.max_length)
        empty = [
            len(row) <= self._special_tokens or not text.strip() for row, text in zip(ids, texts, strict=True)
        ]
        return Encoded(ids, empty, self._cut(texts, ids, cut_texts))

    def prior(self) -> NDArray[np.float32]:
        """The answer to a blank text."""
        return probabilities(self.model.calibration.prior, multi_label=self.multi_label)

    def score(
        self, texts: Sequence[str], ids: Sequence[list[int]], *, explain: bool
    ) -> tuple[NDArray[np.float32], list[list[Word]]]:
        """Probabilities [texts, classes] of one batch, and the words of each text where asked for."""
        padded, mask = self._padded(ids)
        with torch.inference_mode():
            scores = probabilities(self.model.calibrated(padded, mask), multi_label=self.multi_label)
            refuse_no_numbers(scores, self.run.folder)
            if not explain:
                return scores, [[] for _ in texts]
            best = torch.from_numpy(scores.argmax(axis=1)).to(self.device)
            parts = relevances(self.model, padded, mask, best)
        return scores, [self._words(*row) for row in zip(texts, ids, parts, strict=True)]

    def _padded(self, ids: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        padded, mask = pad(ids, padding_id=self._padding_id)
        return padded.to(self.device), mask.to(self.device)

    def _words(self, text: str, ids: list[int], parts: Tensor) -> list[Word]:
        text = text[: self.max_characters].encode(errors="replace").decode()
        whole = self.tokenizer.encode(text)
        # where a text is cut, the tokens that close it stand in other places; they belong to no word
        offsets = [
            offset if kept == found else (0, 0)
            for kept, found, offset in zip(ids, whole.ids, whole.offsets, strict=False)
        ]
        return words(text, offsets, parts[: len(offsets)].tolist())

    def _cut(self, texts: Sequence[str], ids: list[list[int]], count: int) -> list[bool]:
        """Which texts are the `count` that were cut: those that fill the length, but for an exact fit."""
        bound = self.max_characters - self.max_length
        full = [
            len(row) >= self.max_length or len(text) > bound for row, text in zip(ids, texts, strict=True)
        ]
        if count == sum(full):
            return full
        return [
            maybe and tokenizers.encode(self.tokenizer, [text], self.max_length).cut > 0
            for maybe, text in zip(full, texts, strict=True)
        ]


@dataclass
class _Window(Generic[Item]):
    """Items that are tokenised together and scored in batches of like length."""

    classifier: Classifier
    pool: ThreadPoolExecutor
    items: list[Item]
    texts: list[str]
    explain: bool

    def __post_init__(self) -> None:
        self.encoded = self.pool.submit(self.classifier.encode, self.texts)
        self.batches: list[Future[_Scored]] = []

    def start_scoring(self) -> None:
        """Wait for the tokens, then hand out the batches; once is enough."""
        if self.batches:
            return
        ids, empty, _ = self.encoded.result()
        filled = [row for row in range(len(ids)) if not empty[row]]
        tokens = BATCH_TOKENS[self.classifier.device.type]
        for batch in batches_by_length([len(ids[row]) for row in filled], tokens=tokens):
            self.batches.append(self.pool.submit(self._score, [filled[place] for place in batch]))

    def answers(self) -> Iterator[tuple[Item, Answer]]:
        """Every item in its place; blank texts get the class prior."""
        _, empty, cut = self.encoded.result()
        scores = np.tile(self.classifier.prior(), (len(self.items), 1))
        words: list[list[Word]] = [[] for _ in self.items]
        for batch in self.batches:
            scored = batch.result()
            scores[scored.rows] = scored.scores
            for row, found in zip(scored.rows, scored.words, strict=True):
                words[row] = found
        return zip(self.items, map(Answer, scores, empty, cut, words), strict=True)

    def _score(self, rows: list[int]) -> _Scored:
        texts, ids = [self.texts[row] for row in rows], [self.encoded.result().ids[row] for row in rows]
        return _Scored(rows, *self.classifier.score(texts, ids, explain=self.explain))


def probabilities(log_odds: Tensor, *, multi_label: bool) -> NDArray[np.float32]:
    """Of calibrated log-odds [..., classes]."""
    log_odds = log_odds.detach().float()
    return (log_odds.sigmoid() if multi_label else log_odds.softmax(dim=-1)).cpu().numpy()


def labels(
    scores: NDArray[np.float32], classes: tuple[str, ...], *, multi_label: bool, threshold: float
) -> list[str] | list[list[str]]:
    """The class of each row [rows, classes], or all that score at least `threshold`."""
    if multi_label:
        return [[classes[place] for place in np.flatnonzero(row >= threshold)] for row in scores]
    return [classes[place] for place in scores.argmax(axis=1)]


def refuse_no_numbers(scores: NDArray[np.float32], folder: Path) -> None:
    if not np.isfinite(scores).all():
        raise CapstextError(f"{folder}: the model's scores are not numbers; train it again")


def _as_text(item: object) -> str:
    if not isinstance(item, str):
        raise TypeError(f"expected texts, found {item!r}")
    return item


def _windows(items: Iterable[Item], text: Callable[[Item], str]) -> Iterator[list[Item] | CapstextError]:
    """Items in lists of up to WINDOW, or WINDOW_CHARACTERS; a fault comes after all items before it."""
    size, window, characters = FIRST_WINDOW, list[Item](), 0
    iterator = iter(items)
    fault = None
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            break
        except CapstextError as error:
            fault = error
            break
        window.append(item)
        characters += len(text(item))
        if len(window) >= size or characters >= WINDOW_CHARACTERS:
            yield window
            size, window, characters = min(2 * size, WINDOW), [], 0
    if window:
        yield window
    if fault is not None:
        yield fault
