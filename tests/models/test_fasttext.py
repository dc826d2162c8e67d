"""fastText: the mean of its vectors, hashed alike everywhere, whatever the padding."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from capstext.batching import pad
from capstext.config import parse
from capstext.embeddings import TokenIds
from capstext.losses import loss_by_name
from capstext.models import build_network

CLASSES, WORDS = 3, 40


def network(**options: object) -> Any:
    torch.manual_seed(0)
    settings = {"name": "fasttext", "words": WORDS, "buckets": 1000, **options}
    return build_network(parse({"model": settings}), in_dim=1, classes=CLASSES)


def text(*lengths: int) -> tuple[Tensor, Tensor]:
    random = np.random.default_rng(1)
    ids, mask = pad([random.integers(0, WORDS, size=length).tolist() for length in lengths], padding_id=0)
    return TokenIds()(ids, mask), mask


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_log_odds_are_linear_in_the_mean_of_the_vectors_of_words_and_ngrams(ngrams: int) -> None:
    model = network(ngrams=ngrams)
    embedded, mask = text(7)
    numbers = embedded[0, :, 0].long().tolist()
    rows = [number - 1 for number in numbers]
    for size in range(2, ngrams + 1):
        for start in range(len(numbers) - size + 1):
            hashed = numbers[start]
            for number in numbers[start + 1 : start + size]:
                hashed = (hashed * 1_103_515_245 + number) % (2**31 - 1)
            rows.append(WORDS + hashed % 1000)
    expected = model.output(model.vectors[rows].mean(dim=0))
    torch.testing.assert_close(model(embedded, mask)[0], expected, atol=1e-6, rtol=1e-5)


def test_the_hash_is_the_same_on_every_machine() -> None:
    numbers = torch.tensor([[1, 2, 3, 50_000, 16_777_216]])
    rows, found = network(ngrams=3, buckets=2**18)._rows(numbers)
    assert rows[0, 5:].tolist() == [151191, 40198, 241344, 126357, 250448, 137558, 232821]
    assert found.all()


@pytest.mark.parametrize("ngrams", [1, 2, 4])
def test_a_batch_equals_its_items_whatever_their_padding(ngrams: int) -> None:
    model = network(ngrams=ngrams).eval()
    lengths = [0, 1, 2, 5, 9, 17]
    embedded, mask = text(*lengths)
    together = model(embedded, mask)
    for row, length in enumerate(lengths):
        places = slice(0, max(1, length))
        alone = model(embedded[row : row + 1, places], mask[row : row + 1, places])
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-6, rtol=1e-5)


def test_a_text_without_words_has_the_bias() -> None:
    model = network()
    torch.testing.assert_close(model(*text(0, 3))[0], model.output.bias, atol=0, rtol=0)


def test_an_erased_token_takes_its_ngrams_along() -> None:
    model = network(ngrams=2)
    embedded, _ = text(5)
    embedded[0, 2] = 0
    _, found = model._rows(embedded.squeeze(-1).long())
    words, pairs = found[0, :5], found[0, 5:]
    assert words.tolist() == [True, True, False, True, True]
    assert pairs.tolist() == [True, False, False, True]


def test_every_parameter_gets_a_gradient_and_only_the_vectors_in_use() -> None:
    model = network()
    embedded, mask = text(12, 20, 0, 20)
    model(embedded, mask).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name
    rows, found = model._rows(embedded.squeeze(-1).long())
    touched = model.vectors.grad.abs().sum(dim=1).nonzero().squeeze(1)
    assert set(touched.tolist()) == set(rows[found].tolist())


def test_four_sentences_are_learned_by_heart() -> None:
    model = network()
    embedded, mask = text(6, 9, 12, 7)
    truth = torch.eye(CLASSES)[[0, 1, 2, 0]]
    loss = loss_by_name("cross-entropy", multi_label=False)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        loss(model(embedded, mask), truth, progress=0.0).backward()
        optimiser.step()
    assert model(embedded, mask).argmax(dim=-1).tolist() == [0, 1, 2, 0]


def test_the_order_of_words_counts_only_with_ngrams() -> None:
    embedded, mask = text(9)
    turned = embedded.flip(1)
    torch.testing.assert_close(network(ngrams=1)(embedded, mask), network(ngrams=1)(turned, mask))
    assert not torch.allclose(network(ngrams=2)(embedded, mask), network(ngrams=2)(turned, mask))


def test_pairs_of_words_spread_over_all_buckets() -> None:
    model = network(words=300, buckets=2**12)
    numbers = torch.arange(1, 301)
    pairs = torch.stack([numbers.repeat_interleave(300), numbers.repeat(300)], dim=1)
    rows, _ = model._rows(pairs)
    used = torch.bincount(rows[:, 2] - 300, minlength=2**12).double()
    # 90,000 pairs in 4,096 buckets: a random hash gives 22 ± 4.7 each
    assert len(used) == 2**12
    assert used.min() > 0
    assert used.std() < 6
