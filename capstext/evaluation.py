"""A model's log-odds for many rows, and what they are worth."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from capstext import metrics
from capstext.batching import batches_by_length
from capstext.data.image_corpora import ImageCorpus
from capstext.data.sources import Corpus
from capstext.models import Model
from capstext.rows import Rows

TOKENS_IN_BATCH = 8192


def log_odds(model: Model, rows: Rows) -> Tensor:
    """Log-odds [rows, classes] as the network gives them, in the order of the rows."""
    device = next(model.parameters()).device
    scores: list[Tensor] = [torch.empty(0)] * len(rows)
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for batch in batches_by_length(rows.lengths.tolist(), tokens=TOKENS_IN_BATCH):
            inputs = {name: tensor.to(device) for name, tensor in rows.inputs(batch).items()}
            for row, score in zip(batch, model(**inputs).float().cpu(), strict=True):
                scores[row] = score
    model.train(was_training)
    return torch.stack(scores)


class Judged(NamedTuple):
    """Log-odds as they are judged: of one label a row, or of several."""

    log_odds: Tensor
    multi_label: bool


def judged(raw: Tensor, truth: Tensor, *, model: Model, corpus: Corpus | ImageCorpus) -> Judged:
    """After calibration; rows with other than one label are judged as multi-label."""
    several = corpus.multi_label or bool((truth.sum(dim=-1) != 1).any())
    if corpus.multi_label != several:
        # a single-label model's lengths are judged as they are: its calibration is for the softmax
        return Judged(raw, several)
    return Judged(model.calibration(raw.to(model.calibration.scale.device)).cpu(), several)


def score(
    raw: Tensor, truth: Tensor, *, model: Model, corpus: Corpus | ImageCorpus, threshold: float = 0.5
) -> dict[str, Any]:
    """All metrics."""
    log_odds, several = judged(raw, truth, model=model, corpus=corpus)
    return metrics.evaluate(
        log_odds.numpy(), truth.numpy(), classes=corpus.classes, multi_label=several, threshold=threshold
    )


def chosen_score(scores: dict[str, Any]) -> float:
    """The number that decides which epoch is best: accuracy, or micro-F1 where texts have several labels."""
    value = scores["micro"]["f1"] if scores["multi_label"] else scores["accuracy"]
    return float(value or 0.0)
