import itertools
import math
import statistics as standard

import numpy as np
import pytest
from scipy import stats

from capstext.comparison.report.statistics import (
    DRAWS,
    FEW,
    holm,
    mcnemar,
    mean_and_deviation,
    paired_bootstrap,
)


def wins(first, second, *, neither=0):
    """One run a row: so many rows that the first alone, the second alone, and both or none had right."""
    return np.array([1] * first + [-1] * second + [0] * neither)


def test_mean_and_sample_deviation():
    assert mean_and_deviation([2.0, 4.0, 9.0]) == (5.0, pytest.approx(standard.stdev([2, 4, 9])))


def test_one_value_has_no_deviation():
    assert mean_and_deviation([0.7]) == (0.7, None)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (3, 7), (12, 12), (0, 24), (20, 4)])
def test_mcnemar_of_few_rows_is_the_binomial_test(first, second):
    exact = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(wins(first, second, neither=40)) == pytest.approx(exact)


@pytest.mark.parametrize(("first", "second"), [(25, 0), (13, 12), (40, 60), (60, 40), (30, 30)])
def test_mcnemar_of_many_rows_is_the_corrected_chi_square(first, second):
    statistic = max(abs(first - second) - 1, 0) ** 2 / (first + second)
    assert mcnemar(wins(first, second, neither=5)) == pytest.approx(stats.chi2.sf(statistic, df=1))


def test_mcnemar_known_by_hand():
    # 10 against 2 of 12: 2 * (1 + 12 + 66) / 4096
    assert mcnemar(wins(10, 2)) == pytest.approx(158 / 4096)


def test_exact_and_approximate_mcnemar_meet():
    assert mcnemar(wins(8, FEW - 1 - 8)) == pytest.approx(mcnemar(wins(8, FEW - 8)), abs=0.07)


def test_several_runs_of_a_row_turn_their_signs_together():
    given = np.array([3, -1, 2, 2, 0, 1])
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, given, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(given))
    ]
    expected = sum(value >= abs(given.sum()) for value in sums) / len(sums)
    assert mcnemar(given) == pytest.approx(expected)


def test_the_same_rows_run_again_are_no_new_rows():
    once = wins(40, 20)
    assert mcnemar(5 * once) == pytest.approx(mcnemar(once), rel=0.35)
    assert mcnemar(5 * once) > 100 * mcnemar(np.tile(once, 5))


def test_a_single_run_has_no_bootstrap():
    assert paired_bootstrap([0.01]) is None


def test_bootstrap_agrees_with_all_resamples():
    given = [0.03, -0.01, 0.02, 0.005, -0.004]
    means = np.array([np.mean(drawn) for drawn in itertools.product(given, repeat=len(given))])
    found = paired_bootstrap(given)
    assert found.p == pytest.approx(2 * min((means <= 0).mean(), (means >= 0).mean()), abs=0.015)
    assert found.low == pytest.approx(np.quantile(means, 0.025), abs=5e-4)
    assert found.high == pytest.approx(np.quantile(means, 0.975), abs=5e-4)


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_few_runs_of_one_sign_cannot_be_sure(runs):
    found = paired_bootstrap([0.02] * runs)
    assert found.p == pytest.approx(2 ** (1 - runs))
    assert found.low == pytest.approx(0.02)
    assert found.high == pytest.approx(0.02)


def test_a_bootstrap_of_many_runs_has_its_own_smallest_p():
    assert paired_bootstrap([0.02] * 30).p == pytest.approx(2 / (DRAWS + 1))


def test_no_difference_at_all_is_chance():
    assert paired_bootstrap([0.0, 0.0, 0.0]).p == 1.0


def test_bootstrap_is_the_same_every_time_and_turns_with_its_sign():
    given = [0.03, -0.01, 0.02, 0.005]
    there, back = paired_bootstrap(given), paired_bootstrap([-value for value in given])
    assert there == paired_bootstrap(given)
    assert there.p == back.p
    assert math.isclose(there.low, -back.high)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_tests_out_that_were_not_made():
    assert holm([None, 0.02, None, 0.03]) == [None, 0.04, None, 0.04]
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]
