"""Classification of many short lines beside simpler ways of doing it, with the same model."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from capstext import models
from capstext.batching import pad
from capstext.classifier import Classifier
from capstext.config import Config
from capstext.embeddings import WordEmbedding
from capstext.models.text import TextModel
from capstext.runs import Run
from capstext.vocabularies import train_words

WORDS, WORD_DIM = 20_000, 100


@dataclass(frozen=True)
class ClassifyRow:
    """Lines a second of one way, and how many times that of classifying a line at a time."""

    way: str
    lines: int
    lines_a_second: float
    ratio: float
    threads: int


def default_classifier() -> Classifier:
    """Capsule-B with its default settings and weights of no meaning, which take as long as any."""
    config = Config()
    tokenizer, trained = train_words(
        [" ".join(_word(number) for number in range(WORDS))], lowercase=True, min_count=1, max_words=WORDS
    )
    embedding = WordEmbedding(mode="random", words=trained, dim=WORD_DIM, trained_words=trained)
    network = models.build_network(config, in_dim=WORD_DIM, classes=2)
    model = TextModel(embedding=embedding, network=network, classes=2).eval()
    return Classifier(Run(model, tokenizer, config, ("no", "yes"), False, {}, Path()))


def short_lines(count: int) -> list[str]:
    """Lines of 5 to 37 words, 21 on average, as the sentences of MR are."""
    random = np.random.default_rng(0)
    lengths = random.integers(5, 38, count)
    words = random.integers(0, WORDS, lengths.sum())
    ends = np.cumsum(lengths)
    return [
        " ".join(_word(number) for number in words[end - length : end].tolist())
        for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
    ]


def classify_rows(classifier: Classifier, lines: Sequence[str]) -> list[ClassifyRow]:
    """Ours, batches in the order of the file, and a line at a time (on the first five hundred lines)."""
    few = lines[:500]
    alone = _speed(few, lambda: _one_by_one(classifier, few))
    in_order = _speed(lines[:5000], lambda: _in_order(classifier, lines[:5000]))
    ours = _speed(lines, lambda: sum(1 for _ in classifier.stream(lines, text=str)))
    threads = torch.get_num_threads()
    return [
        ClassifyRow("a line at a time", len(few), alone, 1.0, threads),
        ClassifyRow("batches of 64 in order", len(lines[:5000]), in_order, in_order / alone, threads),
        ClassifyRow("capstext classify", len(lines), ours, ours / alone, threads),
    ]


def _word(number: int) -> str:
    return f"w{number}"


def _speed(lines: Sequence[str], work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return len(lines) / (time.perf_counter() - started)


def _one_by_one(classifier: Classifier, lines: Sequence[str]) -> None:
    for line in lines:
        classifier.score([line], classifier.encode([line]).ids, explain=False)


def _in_order(classifier: Classifier, lines: Sequence[str]) -> None:
    with torch.inference_mode():
        for start in range(0, len(lines), 64):
            ids, mask = pad(classifier.encode(lines[start : start + 64]).ids, padding_id=0)
            classifier.model.calibrated(ids, mask)
