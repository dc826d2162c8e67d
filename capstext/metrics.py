"""What a model's calibrated log-odds [N, C] are worth beside the targets [N, C]: one JSON-ready dict."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

CALIBRATION_BINS = 15
SCORES = ("precision", "recall", "f1")


def evaluate(
    log_odds: NDArray[Any],
    targets: NDArray[Any],
    *,
    classes: Sequence[str],
    multi_label: bool,
    threshold: float = 0.5,
) -> dict[str, Any]:
    """Scores of one prediction a row (the argmax), or of every class whose sigmoid reaches the threshold.

    A model trained on single labels is tested on rows with several by `multi_label=True`. Macro averages run
    over the classes that have examples; a class without any is named and has no scores. Accuracy is
    scikit-learn's: every label of a row right.
    """
    from scipy.special import expit, log_expit, log_softmax
    from sklearn.metrics import confusion_matrix, multilabel_confusion_matrix

    log_odds, truth = np.asarray(log_odds, np.float64), np.asarray(targets).astype(bool)
    _check(log_odds, truth, classes=classes, multi_label=multi_label, threshold=threshold)
    confusion: Any
    if multi_label:
        probabilities = expit(log_odds)
        predicted = probabilities >= threshold
        surprise = -np.where(truth, log_expit(log_odds), log_expit(-log_odds)).sum(-1)
        # reliability of every single yes-or-no answer: how often is a class right that is given 30 %?
        bins = _reliability(probabilities.ravel(), truth.ravel())
        confusion = multilabel_confusion_matrix(_wide(truth), _wide(predicted))[:-1]
    else:
        log_probabilities = log_softmax(log_odds, axis=-1)
        best = log_odds.argmax(-1)
        predicted = np.eye(len(classes), dtype=bool)[best]
        surprise = -log_probabilities[truth]
        bins = _reliability(np.exp(log_probabilities.max(-1)), (predicted & truth).any(-1))
        confusion = confusion_matrix(truth.argmax(-1), best, labels=range(len(classes)))

    exact = float((predicted == truth).all(-1).mean())
    per_class = _per_class(truth, predicted, classes)
    return {
        "rows": len(truth),
        "multi_label": multi_label,
        "threshold": threshold if multi_label else None,
        "accuracy": exact,
        "exact_match": exact,
        "hamming_loss": float((predicted != truth).mean()),
        "negative_log_likelihood": _finite(surprise.mean()),
        "macro": _macro(per_class),
        "micro": _average(truth, predicted, "micro"),
        "samples": _average(truth, predicted, "samples"),
        "per_class": per_class,
        "classes_without_examples": [name for name, row in per_class.items() if not row["support"]],
        "confusion": confusion.tolist(),
        "expected_calibration_error": _expected_error(bins),
        "reliability": bins,
    }


def _check(
    log_odds: NDArray[Any],
    truth: NDArray[Any],
    *,
    classes: Sequence[str],
    multi_label: bool,
    threshold: float,
) -> None:
    if log_odds.ndim != 2 or log_odds.shape != truth.shape or log_odds.shape[1] != len(classes):
        raise ValueError(
            f"log-odds {log_odds.shape} and targets {truth.shape} must both be [rows, {len(classes)} classes]"
        )
    if not len(truth):
        raise ValueError("nothing to evaluate: no rows")
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be in 0..1, not {threshold}")
    if np.isnan(log_odds).any():
        raise ValueError(f"the log-odds of row {int(np.isnan(log_odds).any(-1).argmax())} are not numbers")
    labels = truth.sum(-1)
    if not multi_label and (labels != 1).any():
        row = int((labels != 1).argmax())
        raise ValueError(
            f"row {row} has {labels[row]} labels; rows without exactly one need multi_label=True"
        )


def _average(truth: NDArray[Any], predicted: NDArray[Any], average: str) -> dict[str, float | None]:
    if not truth.any():
        return dict.fromkeys(SCORES)
    return {
        name: float(value) for name, value in zip(SCORES, _scores(truth, predicted, average), strict=True)
    }


def _per_class(
    truth: NDArray[Any], predicted: NDArray[Any], classes: Sequence[str]
) -> dict[str, dict[str, float | None]]:
    columns = np.stack(_scores(truth, predicted, None), axis=-1)  # [classes, 3]
    support = truth.sum(0)
    return {
        name: {
            **{score: float(value) if count else None for score, value in zip(SCORES, row, strict=True)},
            "support": int(count),
        }
        for name, row, count in zip(classes, columns[: len(classes)], support, strict=True)
    }


def _macro(per_class: dict[str, dict[str, float | None]]) -> dict[str, float | None]:
    present = [scores for scores in per_class.values() if scores["support"]]
    return {
        name: float(np.mean([scores[name] for scores in present])) if present else None for name in SCORES
    }


def _scores(truth: NDArray[Any], predicted: NDArray[Any], average: str | None) -> tuple[Any, Any, Any]:
    from sklearn.metrics import precision_recall_fscore_support

    scores = precision_recall_fscore_support(_wide(truth), _wide(predicted), average=average, zero_division=0)
    return scores[:3]


def _wide(labels: NDArray[Any]) -> NDArray[Any]:
    """One class more that nothing has: scikit-learn takes a single column for two classes, yes and no."""
    return np.pad(labels, ((0, 0), (0, 1)))


def _reliability(confidence: NDArray[Any], correct: NDArray[Any]) -> list[dict[str, float | None]]:
    """Equal-width bins with their mean confidence and accuracy. Guo et al. 2017, section 2."""
    edges = np.linspace(0, 1, CALIBRATION_BINS + 1)
    # a bin holds (from, to], the first one 0 as well
    index = np.clip(np.digitize(confidence, edges, right=True) - 1, 0, CALIBRATION_BINS - 1)
    count = np.bincount(index, minlength=CALIBRATION_BINS)
    sums = [
        np.bincount(index, weights=values, minlength=CALIBRATION_BINS) for values in (confidence, correct)
    ]
    return [
        {
            "from": float(edges[bin]),
            "to": float(edges[bin + 1]),
            "count": int(count[bin]),
            "confidence": float(sums[0][bin] / count[bin]) if count[bin] else None,
            "accuracy": float(sums[1][bin] / count[bin]) if count[bin] else None,
        }
        for bin in range(CALIBRATION_BINS)
    ]


def _expected_error(bins: list[dict[str, Any]]) -> float:
    filled = [bin for bin in bins if bin["count"]]
    error = sum(bin["count"] * abs(bin["accuracy"] - bin["confidence"]) for bin in filled)
    return float(error / sum(bin["count"] for bin in filled))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
