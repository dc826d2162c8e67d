import math

import numpy as np
import pytest
import torch

from capstext.losses import LOSSES, loss_by_name

torch.set_num_threads(1)


def log_odds_of(lengths):
    return torch.tensor(lengths, dtype=torch.float64).logit()


def slow_margin(lengths, targets, *, positive=0.9, negative=0.1, weight=0.5):
    total = 0.0
    for row, truth in zip(lengths, targets, strict=True):
        for length, true in zip(row, truth, strict=True):
            total += max(0, positive - length) ** 2 if true else weight * max(0, length - negative) ** 2
    return total / len(lengths)


def slow_spread(lengths, targets, *, margin):
    total = 0.0
    for row, truth in zip(lengths, targets, strict=True):
        for t in range(len(row)):
            for i in range(len(row)):
                if truth[t] and not truth[i]:
                    total += max(0, margin - (row[t] - row[i])) ** 2
    return total / len(lengths)


def slow_cross_entropy(lengths, targets, *, multi_label, smoothing=0.0):
    total, classes = 0.0, len(lengths[0])
    for row, truth in zip(lengths, targets, strict=True):
        odds = [length / (1 - length) for length in row]
        for c in range(classes):
            if multi_label:
                target = truth[c] * (1 - smoothing) + smoothing / 2
                total -= target * math.log(row[c]) + (1 - target) * math.log(1 - row[c])
            else:
                target = truth[c] * (1 - smoothing) + smoothing / classes
                total -= target * math.log(odds[c] / sum(odds))
    return total / len(lengths)


SLOW = {
    "margin": lambda lengths, targets, progress, multi_label: slow_margin(lengths, targets),
    "spread": lambda lengths, targets, progress, multi_label: slow_spread(
        lengths, targets, margin=0.2 + 0.7 * progress
    ),
    "cross-entropy": lambda lengths, targets, progress, multi_label: slow_cross_entropy(
        lengths, targets, multi_label=multi_label
    ),
}


def random_case(*, multi_label, rows=5, classes=4, seed=0):
    generator = np.random.default_rng(seed)
    log_odds = torch.tensor(generator.normal(size=(rows, classes)) * 2)
    if multi_label:
        targets = generator.random((rows, classes)) < 0.4
        targets[0], targets[1] = False, True
    else:
        targets = np.eye(classes, dtype=bool)[generator.integers(classes, size=rows)]
    return log_odds, torch.tensor(targets)


@pytest.mark.parametrize("multi_label", [False, True], ids=["one label", "several labels"])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_loss_equals_the_slow_reference(name, multi_label):
    log_odds, targets = random_case(multi_label=multi_label)
    loss = loss_by_name(name, multi_label=multi_label)
    for progress in (0.0, 0.3, 1.0):
        expected = SLOW[name](log_odds.sigmoid().tolist(), targets.tolist(), progress, multi_label)
        assert loss(log_odds, targets, progress=progress).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("multi_label", [False, True], ids=["one label", "several labels"])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_gradient_equals_that_of_the_slow_reference(name, multi_label):
    log_odds, targets = random_case(multi_label=multi_label, seed=1)
    log_odds.requires_grad_()
    loss_by_name(name, multi_label=multi_label)(log_odds, targets, progress=0.5).backward()
    step = 1e-6
    for row in range(log_odds.shape[0]):
        for column in range(log_odds.shape[1]):
            shift = torch.zeros_like(log_odds)
            shift[row, column] = step
            above, below = (
                SLOW[name]((log_odds + sign * shift).sigmoid().tolist(), targets.tolist(), 0.5, multi_label)
                for sign in (1, -1)
            )
            assert log_odds.grad[row, column].item() == pytest.approx((above - below) / (2 * step), abs=1e-7)


def test_margin_by_hand():
    log_odds, targets = (
        log_odds_of([[0.6, 0.4, 0.05], [0.95, 0.1, 0.3]]),
        torch.tensor([[1, 0, 0], [1, 0, 0]]),
    )
    # first row .3² + .5 * .3²; second row .5 * .2²
    assert loss_by_name("margin", multi_label=False)(log_odds, targets, progress=0).item() == pytest.approx(
        (0.135 + 0.02) / 2
    )
    assert loss_by_name("margin", multi_label=False, weight=0.25)(
        log_odds, targets, progress=0
    ).item() == pytest.approx((0.09 + 0.0225 + 0.01) / 2)


def test_spread_by_hand_grows_with_progress():
    log_odds, targets = log_odds_of([[0.6, 0.5, 0.1]]), torch.tensor([[1, 0, 0]])
    spread = loss_by_name("spread", multi_label=False)
    assert spread(log_odds, targets, progress=0).item() == pytest.approx(0.1**2)
    assert spread(log_odds, targets, progress=1).item() == pytest.approx(0.8**2 + 0.4**2)


def test_spread_with_several_labels_counts_every_pair():
    log_odds, targets = log_odds_of([[0.6, 0.4, 0.5]]), torch.tensor([[1, 1, 0]])
    # the pairs .6 over .5 and .4 over .5, each to be .2 apart
    spread = loss_by_name("spread", multi_label=True)
    assert spread(log_odds, targets, progress=0).item() == pytest.approx(0.1**2 + 0.3**2)


def test_cross_entropy_by_hand():
    log_odds, targets = torch.tensor([[0.0, 0.0, 0.0, 0.0]]), torch.tensor([[0, 1, 0, 0]])
    single, several = (loss_by_name("cross-entropy", multi_label=flag) for flag in (False, True))
    assert single(log_odds, targets, progress=0).item() == pytest.approx(math.log(4))
    assert several(log_odds, targets, progress=0).item() == pytest.approx(4 * math.log(2))


@pytest.mark.parametrize("multi_label", [False, True], ids=["one label", "several labels"])
def test_smoothing_moves_targets_to_the_uniform_distribution(multi_label):
    log_odds, targets = random_case(multi_label=multi_label)
    loss = loss_by_name("cross-entropy", multi_label=multi_label, smoothing=0.2)
    expected = slow_cross_entropy(
        log_odds.sigmoid().tolist(), targets.tolist(), multi_label=multi_label, smoothing=0.2
    )
    assert loss(log_odds, targets, progress=0).item() == pytest.approx(expected)


@pytest.mark.parametrize("multi_label", [False, True], ids=["one label", "several labels"])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_saturated_log_odds_give_finite_losses_and_gradients(name, multi_label):
    log_odds = torch.tensor(
        [[20.0, -20.0], [-20.0, 20.0], [200.0, 200.0], [-200.0, -200.0]], requires_grad=True
    )
    targets = torch.tensor([[1.0, 0.0]] * 4)
    loss = loss_by_name(name, multi_label=multi_label)(log_odds, targets, progress=1.0)
    loss.backward()
    assert loss.isfinite()
    assert log_odds.grad.isfinite().all()


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_loss_is_float32_under_autocast(name):
    log_odds, targets = random_case(multi_label=False)
    loss = loss_by_name(name, multi_label=False)
    with torch.autocast("cpu", torch.bfloat16):
        low = loss(log_odds.bfloat16(), targets, progress=0.5)
    assert low.dtype == torch.float32
    exact = loss(log_odds.bfloat16().double(), targets, progress=0.5)
    assert low.item() == pytest.approx(exact.item(), rel=1e-5)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_perfect_answer_costs_less_than_a_wrong_one(name):
    right, targets = torch.tensor([[6.0, -6.0, -6.0]]), torch.tensor([[1, 0, 0]])
    loss = loss_by_name(name, multi_label=False)
    assert loss(right, targets, progress=1) < 0.01 < loss(-right, targets, progress=1)


def test_rows_without_labels_are_no_error():
    log_odds, targets = torch.zeros(2, 3), torch.zeros(2, 3)
    assert loss_by_name("spread", multi_label=True)(log_odds, targets, progress=0).item() == 0
    # (.5 - .1)² for each of three classes, halved
    assert loss_by_name("margin", multi_label=True)(log_odds, targets, progress=0).item() == pytest.approx(
        0.24
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("margn", {}, "unknown loss 'margn'; choose from: cross-entropy, margin, spread"),
        ("margin", {"smoothing": 0.1}, "unknown option 'smoothing'; choose from: negative, positive, weight"),
        ("cross-entropy", {"multi_label_": 1}, "unknown option 'multi_label_'; choose from: smoothing"),
        ("margin", {"weight": "half"}, "weight must be a number, not 'half'"),
        ("margin", {"weight": -1}, "weight must be over 0, not -1"),
        ("margin", {"positive": 0.1, "negative": 0.9}, "not negative 0.9 and positive 0.1"),
        ("spread", {"end": 1.5}, "not start 0.2 and end 1.5"),
        ("cross-entropy", {"smoothing": 1}, "under 1, not 1"),
        ("margin", {"weight": float("nan")}, "not nan"),
    ],
)
def test_a_wrong_name_or_option_is_answered_with_value_and_choices(name, options, message):
    with pytest.raises(ValueError, match="loss") as error:
        loss_by_name(name, multi_label=False, **options)
    assert message in str(error.value)
