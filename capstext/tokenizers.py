"""Texts to token ids, always by a `tokenizers.Tokenizer`; our own kinds have id 0 `<pad>` and 1 `<unk>`."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from capstext.errors import CapstextError
from capstext.hub import pretrained_folder as pretrained_folder
from capstext.vocabularies import PAD, UNKNOWN
from capstext.vocabularies import batches as batches
from capstext.vocabularies import train_sentencepiece as train_sentencepiece
from capstext.vocabularies import train_words as train_words

# Roles that a tokenizer's special tokens are conventionally named by, for tokenizer_config.json.
_ROLES = {
    "pad_token": (PAD, "[PAD]", "<|pad|>", "<|endoftext|>"),
    "unk_token": (UNKNOWN, "[UNK]"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}

# Texts are cut to this many characters per token wanted before they are tokenised.
_CHARACTERS_PER_TOKEN = 64


class Encoded(NamedTuple):
    """Token ids of texts, and how many of the texts were cut."""

    ids: list[list[int]]
    cut: int


def from_huggingface(name_or_folder: str, revision: str | None = None) -> Tokenizer:
    """The tokenizer of a Hugging Face model, with the special tokens that the model wants."""
    folder = pretrained_folder(name_or_folder, revision)
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    except (AttributeError, ImportError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[:1]
        raise CapstextError(
            f"{name_or_folder} has no tokenizer that loads as a fast one: {' '.join(reason)}"
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def load(path: Path) -> Tokenizer:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CapstextError(f"{path}: cannot be read as a tokenizer: {error}") from None
    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # tokenizers raises bare Exception
        raise CapstextError(f"{path}: is not a tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> Encoded:
    """Ids of each text, at most `max_length`; a cut text keeps the special tokens that close it."""
    limit = max_length * _CHARACTERS_PER_TOKEN
    long = {row for row, text in enumerate(texts) if len(text) > limit}
    bounded = [text[:limit] for text in texts]
    try:
        encodings = tokenizer.encode_batch_fast(bounded)
    except TypeError:  # a lone surrogate, which Rust has no string for
        encodings = tokenizer.encode_batch_fast(
            [text.encode("utf-8", "replace").decode() for text in bounded]
        )
    ids = []
    for row, encoding in enumerate(encodings):
        tokens = encoding.ids
        if len(tokens) > max_length:
            long.add(row)
            closing = sum(takewhile(bool, reversed(encoding.special_tokens_mask)))
            tokens = tokens[: max(max_length - closing, 0)] + tokens[len(tokens) - min(closing, max_length) :]
        ids.append(tokens)
    return Encoded(ids, len(long))


def words(tokenizer: Tokenizer) -> list[str]:
    """All tokens, in the order of their ids."""
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def padding_id(tokenizer: Tokenizer) -> int:
    """The id that fills batches; 0 where the tokenizer has none, since the mask hides it."""
    token = _role(tokenizer, "pad_token")
    return (tokenizer.token_to_id(token) if token is not None else None) or 0


def tokenizer_config(tokenizer: Tokenizer, *, max_length: int) -> dict[str, Any]:
    """Content of tokenizer_config.json, by which transformers' AutoTokenizer loads tokenizer.json."""
    roles = {role: token for role in _ROLES if (token := _role(tokenizer, role)) is not None}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": max_length,
        "padding_side": "right",
        "truncation_side": "right",
        "clean_up_tokenization_spaces": False,
        **roles,
    }


def _role(tokenizer: Tokenizer, role: str) -> str | None:
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    return next((token for token in _ROLES[role] if token in special), None)
