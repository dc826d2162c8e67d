import pytest
import torch
from torch.nn import functional

from capstext.calibration import SCALE_BOUNDS, Calibration, surprise

torch.set_num_threads(1)

CASES = pytest.mark.parametrize("multi_label", [False, True], ids=["one label", "several labels"])


def sample(rows, classes, *, multi_label, scale, offset=0.0, seed=0):
    """Raw log-odds, and labels drawn from scale * log-odds + offset."""
    generator = torch.Generator().manual_seed(seed)
    log_odds = torch.randn(rows, classes, generator=generator) * 3
    calibrated = scale * log_odds + offset
    if multi_label:
        return log_odds, torch.bernoulli(calibrated.sigmoid(), generator=generator)
    drawn = torch.multinomial(calibrated.softmax(-1), 1, generator=generator)[:, 0]
    return log_odds, functional.one_hot(drawn, classes).float()


def mean_surprise(log_odds, targets, *, multi_label):
    return surprise(log_odds, targets, multi_label=multi_label).item() / len(targets)


def test_a_fresh_calibration_changes_nothing():
    log_odds = torch.randn(3, 4)
    assert torch.equal(Calibration(4)(log_odds), log_odds)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
@CASES
def test_fit_finds_the_scale_the_labels_were_drawn_with(multi_label, scale):
    calibration = Calibration(5)
    calibration.fit(*sample(20_000, 5, multi_label=multi_label, scale=scale), multi_label=multi_label)
    assert calibration.scale.item() == pytest.approx(scale, rel=0.05)
    assert calibration.offset.abs().max() < 0.1


def test_fit_finds_offsets_where_there_are_several_labels():
    offset = torch.tensor([-2.0, 0.0, 1.5])
    calibration = Calibration(3)
    calibration.fit(*sample(20_000, 3, multi_label=True, scale=0.5, offset=offset), multi_label=True)
    assert calibration.offset.tolist() == pytest.approx(offset.tolist(), abs=0.15)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rows", [1, 7, 300])
@CASES
def test_fit_never_makes_validation_likelihood_worse_nor_moves_the_argmax(multi_label, rows, seed):
    scale = [0.05, 0.4, 1.0, 4.0][seed % 4]
    log_odds, targets = sample(rows, 4, multi_label=multi_label, scale=scale, seed=seed)
    calibration = Calibration(4)
    calibration.fit(log_odds, targets, multi_label=multi_label)
    before = mean_surprise(log_odds, targets, multi_label=multi_label)
    assert mean_surprise(calibration(log_odds), targets, multi_label=multi_label) <= before + 1e-6
    if not multi_label:
        assert torch.equal(calibration(log_odds).argmax(-1), log_odds.argmax(-1))
        assert not calibration.offset.any()


@CASES
def test_fit_generalises_to_new_rows(multi_label):
    calibration = Calibration(6)
    calibration.fit(*sample(200, 6, multi_label=multi_label, scale=0.4, seed=1), multi_label=multi_label)
    log_odds, targets = sample(5000, 6, multi_label=multi_label, scale=0.4, seed=2)
    before = mean_surprise(log_odds, targets, multi_label=multi_label)
    assert mean_surprise(calibration(log_odds), targets, multi_label=multi_label) < 0.9 * before


@CASES
def test_separable_rows_do_not_drive_the_scale_away(multi_label):
    targets = torch.eye(3).repeat(5, 1)
    calibration = Calibration(3)
    calibration.fit((targets - 0.5) * 4, targets, multi_label=multi_label)
    assert 1 < calibration.scale.item() < 4


@CASES
def test_a_model_that_is_wrong_everywhere_stays_in_order(multi_label):
    targets = torch.eye(3).repeat(50, 1)
    log_odds = (0.5 - targets) * 8
    calibration = Calibration(3)
    calibration.fit(log_odds, targets, multi_label=multi_label)
    assert SCALE_BOUNDS[0] <= calibration.scale.item() < 1
    if not multi_label:
        assert torch.equal(calibration(log_odds).argmax(-1), log_odds.argmax(-1))


@CASES
def test_no_rows_leave_the_identity(multi_label):
    calibration = Calibration(3)
    calibration.fit(torch.zeros(0, 3), torch.zeros(0, 3), multi_label=multi_label)
    assert calibration.scale.item() == 1
    assert not calibration.offset.any()


def test_a_second_fit_forgets_the_first():
    first, second = Calibration(3), Calibration(3)
    rows = sample(500, 3, multi_label=True, scale=0.5)
    first.fit(*sample(500, 3, multi_label=True, scale=4.0, seed=3), multi_label=True)
    first.fit(*rows, multi_label=True)
    second.fit(*rows, multi_label=True)
    assert torch.equal(first.scale, second.scale)
    assert torch.equal(first.offset, second.offset)


def test_fit_works_without_gradients_around_it():
    with torch.inference_mode():
        log_odds, targets = sample(200, 3, multi_label=True, scale=0.5)
        calibration = Calibration(3)
        calibration.fit(log_odds, targets, multi_label=True)
    assert calibration.scale.item() < 0.8


def test_log_odds_that_are_not_finite_are_refused():
    log_odds = torch.tensor([[0.0, float("nan")], [1.0, 2.0]])
    with pytest.raises(ValueError, match="1 of 2 validation rows"):
        Calibration(2).fit(log_odds, torch.eye(2), multi_label=False)


def test_the_prior_reads_as_the_class_frequencies():
    counts = torch.tensor([899, 99, 0])
    single = Calibration(3)
    single.fit_prior(counts, 998, multi_label=False)
    assert single.prior.softmax(-1).tolist() == pytest.approx([900 / 1001, 100 / 1001, 1 / 1001])
    several = Calibration(3)
    several.fit_prior(counts, 998, multi_label=True)
    assert several.prior.sigmoid().tolist() == pytest.approx([0.9, 0.1, 0.001])


def test_everything_fitted_is_in_the_state_dict():
    fitted, loaded = Calibration(3), Calibration(3)
    fitted.fit(*sample(200, 3, multi_label=True, scale=0.5), multi_label=True)
    fitted.fit_prior(torch.tensor([5, 3, 2]), 8, multi_label=True)
    loaded.load_state_dict(fitted.state_dict())
    assert set(fitted.state_dict()) == {"scale", "offset", "prior"}
    assert torch.equal(loaded(torch.ones(1, 3)), fitted(torch.ones(1, 3)))


def test_importing_it_needs_neither_scipy_nor_scikit_learn():
    import subprocess
    import sys

    code = "import sys, capstext.calibration, capstext.losses; print({'scipy', 'sklearn'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
    )
