"""Networks by name: embedded words or pixels in, log-odds a class out."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from capstext.config import Config, arguments
from capstext.embeddings import Embedding, Pixels
from capstext.errors import UsageError, did_you_mean
from capstext.models.capsule_text import CapsuleText
from capstext.models.convolutional import ConvolutionalText, FlatConvolutionalText
from capstext.models.fasttext import FastText
from capstext.models.image import ImageModel
from capstext.models.images import IMAGE_MODELS
from capstext.models.nb_svm import NaiveBayesSvm
from capstext.models.pooled import PooledText
from capstext.models.recurrent import RecurrentText
from capstext.models.text import TextModel
from capstext.models.tf_idf import TfIdf
from capstext.routing import ROUTINGS, routing_by_name

MODELS: dict[str, Callable[..., nn.Module]] = {
    "capsule-a": partial(CapsuleText, ngram_sizes=(3,)),
    "capsule-b": partial(CapsuleText, ngram_sizes=(3, 4, 5)),
    "cnn": ConvolutionalText,
    "cnn-release": FlatConvolutionalText,
    "lstm": partial(RecurrentText, bidirectional=False),
    "bilstm": partial(RecurrentText, bidirectional=True),
    "linear": PooledText,
    "fasttext": FastText,
    "tf-idf": TfIdf,
    "nb-svm": NaiveBayesSvm,
    **IMAGE_MODELS,
}

Model = TextModel | ImageModel


def reads_images(name: str) -> bool:
    """Whether a model of that name is for images, not for texts."""
    if name not in MODELS:
        raise UsageError(f"model: unknown model {name!r}; {did_you_mean(name, MODELS)}")
    return name in IMAGE_MODELS


def routes(name: str) -> bool:
    """Whether a model of that name has capsules."""
    return "routing" in inspect.signature(MODELS[name]).parameters


def build_model(config: Config, *, embedding: Embedding | Pixels, classes: int) -> Model:
    """What is read, the network on it, and a calibration."""
    network = build_network(config, classes=classes, **embedding.sizes)
    if isinstance(embedding, Pixels):
        weight = config.images.reconstruction
        return ImageModel(embedding=embedding, network=network, classes=classes, reconstruction=weight)
    return TextModel(embedding=embedding, network=network, classes=classes)


def build_network(config: Config, *, classes: int, **sizes: int) -> nn.Module:
    """The network that the sections model and routing describe, for vectors or images of these sizes."""
    name = config.model.name
    if reads_images(name) != ("height" in sizes):
        raise UsageError(f"model.name {name}: is for {'images' if reads_images(name) else 'texts'}")
    options = arguments("model", MODELS[name], config.model.options)
    for key, value in options.items():
        numbers = value if isinstance(value, tuple) else (value,)
        if not numbers or any(type(number) is int and number < 1 for number in numbers):
            raise UsageError(f"model.{key}: {value} is no size; give 1 or more")
    routing = _routing(config)
    if routes(name):
        options["routing"] = routing
    try:
        return MODELS[name](classes=classes, **sizes, **options)
    except ValueError as error:
        raise UsageError(f"model: {error}") from None


def _routing(config: Config) -> Any:
    name = config.routing.name
    if name not in ROUTINGS:
        raise UsageError(f"routing: unknown routing {name!r}; {did_you_mean(name, ROUTINGS)}")
    try:
        return routing_by_name(name, **arguments("routing", ROUTINGS[name], config.routing.options))
    except ValueError as error:
        raise UsageError(f"routing: {error}") from None
