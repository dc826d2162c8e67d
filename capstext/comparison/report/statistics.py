"""What paired runs and paired answers say about two models: numbers in, p-values and intervals out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW = 25  # below so many rows that tell two models apart, chances are counted, not approximated
DRAWS = 10_000
LEVEL = 0.05


@dataclass(frozen=True)
class Interval:
    """A mean difference over runs, between which bounds it lies, and how likely chance alone gives it."""

    low: float
    high: float
    p: float


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the deviation of a sample (n - 1); a single value has none."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def mcnemar(wins: NDArray[Any]) -> float:
    """Are two models right equally often? Two-sided p from the wins of each row. McNemar 1947.

    A row's wins are the runs in which the first alone was right, less those in which the second alone was.
    With one run a row they are 1, 0 or -1, and this is McNemar's test: exact (a binomial) for few rows, else
    chi-square with a continuity correction (Edwards 1948). Several seeds on the same rows are no new rows:
    a row then counts once, as a cluster (Durkalski et al. 2003), and for few rows every sign is turned.
    """
    sizes = np.abs(wins[wins != 0]).astype(np.int64)
    distance = abs(int(wins.sum()))
    if len(sizes) < FEW:
        return _chance_of_signs(sizes, distance)
    statistic = max(distance - 1, 0) ** 2 / int((sizes**2).sum())
    return math.erfc(math.sqrt(statistic / 2))  # the upper tail of chi-square with one degree of freedom


def paired_bootstrap(differences: Sequence[float]) -> Interval | None:
    """95 % interval and two-sided p of the mean of paired differences. Efron and Tibshirani 1993, chapter 13.

    n differences of one sign make every resample one-sided, though chance gives them once in 2^(n-1): p is
    never below that.
    """
    values = np.asarray(differences, np.float64)
    if len(values) < 2:
        return None
    drawn = np.random.default_rng(0).integers(len(values), size=(DRAWS, len(values)))
    means = values[drawn].mean(axis=1)
    # a difference of nothing must not be decided by rounding
    tiny = 1e-12 * float(np.abs(values).max(initial=0.0))
    tail = min(int((means <= tiny).sum()), int((means >= -tiny).sum()))
    low, high = np.quantile(means, (LEVEL / 2, 1 - LEVEL / 2))
    # one more on both sides: a share of draws is no chance of 0 (Davison and Hinkley 1997, section 4.2)
    p = max(2 * (tail + 1) / (DRAWS + 1), 2.0 ** (1 - len(values)))
    return Interval(float(low), float(high), min(p, 1.0))


def holm(chances: Sequence[float | None]) -> list[float | None]:
    """Each p, corrected for the number of tests that were made. Holm 1979."""
    made = sorted((p, position) for position, p in enumerate(chances) if p is not None)
    corrected: list[float | None] = [None] * len(chances)
    highest = 0.0
    for rank, (p, position) in enumerate(made):
        highest = max(highest, min(1.0, (len(made) - rank) * p))
        corrected[position] = highest
    return corrected


def _chance_of_signs(sizes: NDArray[np.int64], distance: int) -> float:
    """The share of all signs of `sizes` whose sum is at least as far from 0. Fisher 1935, section 21."""
    total = int(sizes.sum())
    ways = np.zeros(2 * total + 1, np.int64)  # by sum, from -total to total; fewer than 2^25 in all
    ways[total] = 1
    for size in sizes:
        # sums never leave the range, so nothing is rolled over its end
        ways = np.roll(ways, size) + np.roll(ways, -size)
    sums = np.abs(np.arange(-total, total + 1))
    return float(ways[sums >= distance].sum() / ways.sum())
