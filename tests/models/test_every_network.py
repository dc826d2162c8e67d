"""Laws that hold for every network by name."""

from typing import Any

import pytest
import torch
from networks import CASES, CLASSES, DIM, IDS, NETWORKS, network, text

from capstext.config import parse
from capstext.errors import UsageError
from capstext.losses import loss_by_name
from capstext.models import build_network

every_network = pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)


@every_network
def test_a_batch_equals_its_items_whatever_their_padding(name: str, options: dict[str, Any]) -> None:
    model = network(name, **options).eval()
    lengths = [0, 1, 2, 5, 9, 17]
    embedded, mask = text(*lengths)
    together = model(embedded, mask)
    for row, length in enumerate(lengths):
        places = slice(0, max(1, length))  # an empty text has a shape as well
        alone = model(embedded[row : row + 1, places], mask[row : row + 1, places])
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-5, rtol=1e-4)


@every_network
def test_any_length_has_finite_log_odds_even_no_word_at_all(name: str, options: dict[str, Any]) -> None:
    model = network(name, **options)
    embedded, _ = text(4, 4)
    for length in (1, 2, 3, 4):
        for mask in (torch.ones(2, length, dtype=torch.bool), torch.zeros(2, length, dtype=torch.bool)):
            log_odds = model(embedded[:, :length] * mask.unsqueeze(-1), mask)
            assert log_odds.shape == (2, CLASSES)
            assert log_odds.isfinite().all()


@every_network
def test_every_parameter_gets_a_gradient_even_beside_a_text_without_words(
    name: str, options: dict[str, Any]
) -> None:
    model = network(name, **options)
    model(*text(12, 20, 0, 20)).sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@every_network
def test_four_sentences_are_learned_by_heart(name: str, options: dict[str, Any]) -> None:
    model = network(name, **options)
    embedded, mask = text(6, 9, 12, 7)
    targets = torch.eye(CLASSES)[[0, 1, 2, 0]]
    loss = loss_by_name("margin", multi_label=False)
    rate = 5e-2 if name == "linear" else 5e-3  # one layer has further to go
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(60):
        optimiser.zero_grad()
        loss(model(embedded, mask), targets, progress=0.0).backward()
        optimiser.step()
    model.eval()
    assert model(embedded, mask).argmax(dim=-1).tolist() == [0, 1, 2, 0]


@every_network
def test_bfloat16_autocast_gives_nearly_the_same_with_finite_gradients(
    name: str, options: dict[str, Any]
) -> None:
    model = network(name, **options).eval()
    embedded, mask = text(12, 20, 3)
    expected = model(embedded, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        log_odds = model(embedded, mask)
    torch.testing.assert_close(log_odds.float(), expected, atol=0.05, rtol=0.05)
    log_odds.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_a_routing_is_checked_by_every_network_and_taken_by_capsules(name: str) -> None:
    with pytest.raises(UsageError, match="unknown routing 'dinamic'; did you mean dynamic"):
        build_network(parse({"model": name, "routing": "dinamic"}), in_dim=DIM, classes=CLASSES)
    torch.manual_seed(0)
    static = build_network(parse({"model": name, "routing": "static"}), in_dim=DIM, classes=CLASSES).eval()
    other = not torch.equal(static(*text(12, 20)), network(name).eval()(*text(12, 20)))
    assert other == name.startswith("capsule")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"name": "cnn", "norm_limit": 0}, "model: norm_limit must be above 0, not 0.0"),
        ({"name": "cnn", "dropout": 2}, "model: dropout probability has to be between 0 and 1, but got 2.0"),
        ({"name": "cnn", "filters": 0}, "model.filters: 0 is no size; give 1 or more"),
        ({"name": "cnn", "window": 3}, "unknown setting model.window"),
        ({"name": "cnn-release", "positions": 2}, "model: positions must be at least ngram_size 3, not 2"),
        ({"name": "lstm", "pooling": "mean"}, "model.pooling: 'mean' is none of its values"),
        ({"name": "linear", "pooling": "last"}, "model.pooling: 'last' is none of its values"),
        ({"name": "bi-lstm"}, "unknown model 'bi-lstm'; did you mean bilstm?"),
    ],
)
def test_a_wrong_setting_is_named(model: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        build_network(parse({"model": model}), in_dim=DIM, classes=CLASSES)
    assert message in str(error.value)
