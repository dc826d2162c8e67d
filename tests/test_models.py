"""Laws that hold for every network by name."""

import pytest
import torch
from torch import Tensor

from capstext.config import parse
from capstext.losses import loss_by_name
from capstext.models import MODELS, build_network

CLASSES = 3


def network(name: str, **options: object) -> torch.nn.Module:
    torch.manual_seed(0)
    return build_network(parse({"model": {"name": name, **options}}), in_dim=10, classes=CLASSES)


def text(*lengths: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    embedded = torch.randn(len(lengths), max(lengths), 10, generator=generator)
    return embedded * mask.unsqueeze(-1), mask


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_equals_its_items_whatever_their_padding(name: str) -> None:
    model = network(name).eval()
    embedded, mask = text(1, 2, 5, 9, 17)
    together = model(embedded, mask)
    for row, length in enumerate([1, 2, 5, 9, 17]):
        alone = model(embedded[row : row + 1, :length], mask[row : row + 1, :length])
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_any_length_has_finite_log_odds_even_no_word_at_all(name: str) -> None:
    model = network(name)
    embedded, _ = text(4, 4)
    for length in (1, 2, 3, 4):
        for mask in (torch.ones(2, length, dtype=torch.bool), torch.zeros(2, length, dtype=torch.bool)):
            log_odds = model(embedded[:, :length] * mask.unsqueeze(-1), mask)
            assert log_odds.shape == (2, CLASSES)
            assert log_odds.isfinite().all()


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    model = network(name)
    model(*text(12, 20, 20)).sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@pytest.mark.parametrize("name", MODELS)
def test_four_sentences_are_learned_by_heart(name: str) -> None:
    model = network(name)
    embedded, mask = text(6, 9, 12, 7)
    targets = torch.eye(CLASSES)[[0, 1, 2, 0]]
    loss = loss_by_name("margin", multi_label=False)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(60):
        optimiser.zero_grad()
        loss(model(embedded, mask), targets, progress=0.0).backward()
        optimiser.step()
    model.eval()
    assert model(embedded, mask).argmax(dim=-1).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("capsule")])
def test_the_signal_reaches_the_class_capsules_at_initialisation(name: str) -> None:
    lengths = network(name).eval()(*text(20, 30)).sigmoid()
    assert lengths.min() > 0.01
    assert lengths.max() < 0.9


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("capsule")])
def test_the_orphan_takes_a_share_and_is_never_a_class(name: str) -> None:
    embedded, mask = text(12, 20)
    with_orphan, without = network(name, orphan=True).eval(), network(name, orphan=False).eval()
    assert with_orphan(embedded, mask).shape == without(embedded, mask).shape == (2, CLASSES)
    weights = [branch.classes.route.weights.shape[0] for branch in with_orphan.branches]
    assert set(weights) == {CLASSES + 1}


def test_capsule_b_averages_the_poses_of_its_branches_then_takes_the_norm() -> None:
    model = network("capsule-b").eval()
    embedded, mask = text(12, 20)
    poses = [branch(embedded, mask).poses for branch in model.branches]
    expected = (sum(poses) / 3).norm(dim=-1)[:, :CLASSES]
    torch.testing.assert_close(model(embedded, mask).sigmoid(), expected, atol=1e-6, rtol=1e-5)


def test_the_stride_of_the_released_code_skips_every_second_ngram() -> None:
    model = network("capsule-a", stride=2)
    features, mask = model.branches[0].ngrams(*text(9, 10))
    assert features.shape[1] == mask.shape[1] == 4
    assert mask.sum(dim=1).tolist() == [4, 4]
