"""Made-up runs for the tests of a comparison's report: random answers, scored by the real metrics."""

import zlib

import numpy as np

from capstext.comparison.records import Answers, Record
from capstext.metrics import evaluate

CLASSES = ("neg", "pos")


def truth_of(*, rows, classes, fold=None, several=False, dataset="made"):
    """The labels of the test rows: the same for every model and seed of a fold."""
    random = np.random.default_rng([zlib.crc32(dataset.encode()), 0 if fold is None else fold + 1])
    labels = np.eye(classes, dtype=bool)[random.integers(classes, size=rows)]
    return labels | (random.random((rows, classes)) < 0.15) if several else labels


def made(
    *,
    dataset="made",
    model="capsule-b",
    embeddings="glove",
    protocol="10 folds",
    family=None,
    seed=0,
    fold=None,
    accuracy=0.8,
    rows=60,
    classes=CLASSES,
    several=False,
    splits=("test",),
    labels=None,
    never=(),
    config=None,
    search=None,
    seconds=60.0,
    parameters=100_000,
    memory=400_000_000,
    sharpness=2.0,
):
    """A run that is right on about `accuracy` of its rows, and never predicts the classes in `never`."""
    random = np.random.default_rng([zlib.crc32(f"{model} {embeddings}".encode()), seed, fold or 0])
    tests, answers = {}, {}
    for split in splits:
        truth = labels
        if truth is None:
            truth = truth_of(rows=rows, classes=len(classes), fold=fold, several=several, dataset=dataset)
        right = random.random(len(truth)) < accuracy
        told = np.where(right[:, None], truth, np.roll(truth, 1, axis=1))
        log_odds = sharpness * (np.where(told, 1.0, -1.0) + random.normal(0, 0.25, truth.shape))
        log_odds[:, list(never)] = -9.0
        tests[split] = evaluate(log_odds, truth, classes=classes, multi_label=several)
        odds = np.exp(log_odds)
        probabilities = odds / (1 + odds) if several else odds / odds.sum(-1, keepdims=True)
        predicted = probabilities >= 0.5 if several else np.eye(len(classes))[log_odds.argmax(-1)] > 0
        answers[split] = Answers(predicted, truth, np.round(probabilities * 255).astype(np.uint8))
    first = splits[0]
    settings = {
        "data": {"name": dataset, "fold": fold, "folds": 10},
        "embeddings": {"mode": "non-static", "vectors": f"/somewhere/vectors/{embeddings}.txt"},
        "model": {"name": model},
        "training": {"epochs": 5, "learning_rate": 0.003, "seed": seed},
    }
    for section, values in (config or {}).items():
        settings[section] = settings.get(section, {}) | values
    return Record(
        dataset=dataset,
        model=model,
        embeddings=embeddings,
        protocol=protocol,
        family=family or ("capsules" if model.startswith("capsule") else "baseline"),
        seed=seed,
        fold=fold,
        config=settings,
        search=search,
        classes=tuple(classes),
        multi_label=several,
        rows={"train": 10 * rows, "validation": rows, **dict.fromkeys(splits, rows)},
        validation=tests[first],
        tests=tests,
        answers=answers,
        epochs=5,
        best_epoch=3,
        seconds={"prepare": 2.0, "train": seconds, "all": seconds + 3},
        texts_per_second=3000.0,
        parameters=parameters,
        trained_parameters=parameters,
        peak_memory=memory,
        device="cpu",
        versions={"torch": "2.13.0"},
        finished="2026-11-18T12:00:00+00:00",
    )


def folds(count, **options):
    """One run for each of the folds."""
    return [made(fold=fold, **options) for fold in range(count)]


def seeds(count, **options):
    """One run for each of the seeds, on the same rows."""
    return [made(seed=seed, protocol="seeds", **options) for seed in range(count)]
