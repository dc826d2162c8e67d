"""Images on their way to a model: splits, and a network of their size."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from capstext.config import Config
from capstext.data.image_catalog import known_images
from capstext.data.image_corpora import ImageCorpus, folded, with_cut
from capstext.data.image_files import Shape
from capstext.data.images import load_images
from capstext.embeddings import Pixels
from capstext.errors import UsageError
from capstext.memory import Memory
from capstext.models import build_model, build_network
from capstext.models.image import ImageModel
from capstext.models.matrix_capsules import MatrixCapsules
from capstext.rows import ImageRows
from capstext.runs import Run

SCALING_ROWS = 64
ANY_SIZE = Shape(height=64, width=64, channels=1)  # of images that are not yet read


class Built(NamedTuple):
    """A model and its rows; images need no tokenizer."""

    config: Config
    tokenizer: None
    model: ImageModel
    rows: dict[str, ImageRows]


def refuse_bad_settings(config: Config) -> None:
    """What is wrong with a model for images, whatever the images; no memory is taken for its weights."""
    known = known_images(config.data.name)
    shape = Shape(known.height, known.width, known.channels) if known else ANY_SIZE
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        build_network(config, classes=2, **_pixels(config, shape).sizes)


def split(config: Config, *, errors: Any = "strict", skip_bad: bool = False) -> ImageCorpus:
    """The images of a config with the splits train, validation and test; bytes are never text here."""
    data = config.data
    corpus = load_images(data.name, skip_bad=skip_bad)
    if data.train_split != "train":
        corpus = replace(corpus, splits={**corpus.splits, "train": corpus.split(data.train_split)})
    if data.fold is not None:
        return folded(corpus, index=data.fold, count=data.folds, seed=0)
    if not corpus.test_splits:
        corpus = with_cut(corpus, "test", share=data.validation, seed=0)
    if "validation" not in corpus.splits:
        corpus = with_cut(corpus, "validation", share=data.validation, seed=0)
    kept = {"train", "validation", *corpus.test_splits}
    return replace(corpus, splits={name: split for name, split in corpus.splits.items() if name in kept})


def read(run: Run, data: str, *, skip_bad: bool, **_: Any) -> ImageCorpus:
    """Other images, with the classes and the size of a run's."""
    assert isinstance(run.model, ImageModel)
    return load_images(data, classes=run.classes, shape=run.model.embedding.shape, skip_bad=skip_bad)


def describe(corpus: ImageCorpus) -> str:
    """How large the images are."""
    return f"images of {corpus.shape}"


def rows(run: Run, corpus: ImageCorpus, split: str) -> ImageRows:
    """A split as a run's model reads it."""
    return ImageRows(corpus.splits[split])


def build(
    config: Config,
    corpus: ImageCorpus,
    *,
    memory: Memory,
    say: Callable[[str], None],
    count: Callable[[int, int], None],
) -> Built:
    """The model for these images."""
    rows = {name: ImageRows(split) for name, split in corpus.splits.items()}
    model = build_model(config, embedding=_pixels(config, corpus.shape), classes=len(corpus.classes))
    assert isinstance(model, ImageModel)
    if isinstance(model.network, MatrixCapsules):
        few = rows["train"].inputs(range(min(SCALING_ROWS, len(rows["train"]))))["pixels"]
        model.network.scale_weights(model.embedding(few))
    return Built(config, None, model, rows)


def _pixels(config: Config, shape: Shape) -> Pixels:
    images = config.images
    if images.crop and images.crop > min(shape.height, shape.width):
        raise UsageError(f"images.crop: {images.crop} does not fit images of {shape}")
    return Pixels(
        **shape._asdict(),
        shift=images.shift,
        rotation=images.rotation,
        scaling=images.scaling,
        crop=images.crop,
        contrast=images.contrast,
    )
