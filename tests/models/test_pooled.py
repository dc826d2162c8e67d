"""Pooled vectors: mean, first and largest of the real words."""

import pytest
import torch
from networks import network, text


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_words_are_pooled_without_their_padding(pooling: str) -> None:
    model = network("linear", pooling=pooling).eval()
    lengths = [1, 3, 8]
    embedded, mask = text(*lengths)
    embedded = embedded - 5 * mask.unsqueeze(-1)  # all below 0: padding would be the largest
    log_odds = model(embedded, mask)
    for row, length in enumerate(lengths):
        words = embedded[row, :length]
        pooled = {"mean": words.mean(dim=0), "first": words[0], "max": words.max(dim=0).values}[pooling]
        torch.testing.assert_close(log_odds[row], model.output(pooled), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_a_text_without_words_gets_the_bias(pooling: str) -> None:
    model = network("linear", pooling=pooling).eval()
    assert torch.equal(model(*text(0, 4))[0], model.output.bias)
