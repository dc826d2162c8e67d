"""Tokenizers of our own, trained on texts: words as in the Penn Treebank, or sentencepiece's subwords."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from capstext.errors import CapstextError

PAD, UNKNOWN = "<pad>", "<unk>"

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


class WordTokenizer(NamedTuple):
    """A tokenizer; ids below `trained_words` are `<pad>`, `<unk>` and words of the training texts."""

    tokenizer: Tokenizer
    trained_words: int


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
    splitter.train_from_iterator(batches(texts), trainer)
    vocabulary = splitter.get_vocab(with_added_tokens=False)
    words = [word for word in sorted(vocabulary, key=vocabulary.__getitem__) if word not in (PAD, UNKNOWN)]
    known = {PAD, UNKNOWN, *words}
    extra = [word for word in dict.fromkeys(extra_words) if word not in known]
    encodings = _word_splitter(extra, lowercase=lowercase).encode_batch_fast(extra)
    reachable = [word for id, word in enumerate(extra, start=2) if encodings[id - 2].ids == [id]]
    return WordTokenizer(_word_splitter(words + reachable, lowercase=lowercase), 2 + len(words))


def batches(texts: Iterable[str], size: int = 1000) -> Iterator[list[str]]:
    iterator = iter(texts)
    while batch := list(islice(iterator, size)):
        yield batch


def train_sentencepiece(texts: Iterable[str], *, vocabulary_size: int) -> Tokenizer:
    """Unigram subwords (Kudo 2018) by sentencepiece; fewer than asked for where the texts yield fewer."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(0)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for text in texts for line in text.splitlines() if line.strip()),
            model_writer=model,
            model_type="unigram",
            normalization_rule_name="nmt_nfkc",
            vocab_size=vocabulary_size,
            hard_vocab_limit=False,
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


def _from_sentencepiece(model: bytes) -> Tokenizer:
    """The same encoding without sentencepiece: its pieces and scores, its normaliser, its way with spaces."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    size = processor.vocab_size()
    pieces = [(processor.id_to_piece(id), processor.get_score(id)) for id in range(2, size)]
    lowest = min((score for _, score in pieces), default=0.0)
    tokenizer = Tokenizer(models.Unigram([(PAD, lowest), (UNKNOWN, lowest), *pieces], unk_id=1))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(_charsmap(model)),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    tokenizer.add_special_tokens([PAD, UNKNOWN])
    return tokenizer


def _charsmap(model: bytes) -> bytes:
    """The normaliser's table: in the protocol buffer it stands behind the rule's name, its size before it."""
    _, _, rest = model.partition(b"\x0a\x08nmt_nfkc\x12")
    size = 0
    for place, byte in enumerate(rest):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return rest[place + 1 : place + 1 + size]
    raise CapstextError("sentencepiece made a model without its normaliser")
