"""A run folder with a small Capsule-B of random weights, for the tests of everything that reads one."""

from pathlib import Path

import torch

from capstext import models, runs, tokenizers
from capstext.config import Config, parse
from capstext.embeddings import WordEmbedding
from capstext.models.text import TextModel

TEXTS = [
    "a warm and funny film about two brothers",
    "the plot is dull and the jokes are old",
    "she plays the part with quiet grace",
    "nothing happens and it happens slowly",
]
CLASSES = ("bad", "good", "mixed")
SETTINGS = {
    "tokens": {"max_length": 16},
    "embeddings": {"mode": "random", "dim": 8},
    "model": {"name": "capsule-b", "filters": 8, "primary_capsules": 4, "capsules": 4, "dim": 4},
}


def small_model(config: Config, *, words: int, classes: int, seed: int = 0) -> TextModel:
    torch.manual_seed(seed)
    embedding = WordEmbedding(mode="random", words=words, dim=config.embeddings.dim, trained_words=words - 1)
    network = models.build_network(config, in_dim=embedding.dim, classes=classes)
    model = TextModel(embedding=embedding, network=network, classes=classes)
    # larger than at the start of a training, so that texts differ in their scores
    for parameter in model.parameters():
        parameter.data.mul_(2.0)
    counts = torch.arange(1.0, classes + 1)
    model.calibration.fit_prior(counts, int(counts.sum()), multi_label=False)
    return model.eval()


def save_small_run(
    folder: Path,
    *,
    classes: tuple[str, ...] = CLASSES,
    multi_label: bool = False,
    seed: int = 0,
    routing: str = "dynamic",
    data: Path | str = "mr",
) -> TextModel:
    """Write a run folder; returns the model that was saved."""
    config = parse(SETTINGS | {"routing": routing, "data": {"name": str(data)}})
    tokenizer = tokenizers.train_words(TEXTS, lowercase=True, min_count=1, max_words=100).tokenizer
    words = tokenizer.get_vocab_size()
    model = small_model(config, words=words, classes=len(classes), seed=seed)
    if multi_label:
        model.calibration.fit_prior(torch.ones(len(classes)), 10, multi_label=True)
    runs.save(
        folder,
        model=model,
        tokenizer=tokenizer,
        config=config,
        classes=classes,
        multi_label=multi_label,
        metrics={"test": {"accuracy": 0.5}},
        card="# a small model\n",
    )
    return model
