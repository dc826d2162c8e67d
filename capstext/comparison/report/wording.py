"""Numbers as a report prints them."""

import math

NOTHING = "–"
METRIC_NAMES = {
    "accuracy": "accuracy",
    "micro_f1": "micro-F1",
    "samples_f1": "samples-F1",
    "exact_match": "exact match",
}


def percent(share: float | None) -> str:
    """One decimal; two from 99 % on, where systems differ by less."""
    if share is None:
        return NOTHING
    return f"{100 * share:.2f}" if 0.99 <= share < 1 else f"{100 * share:.1f}"


def plus_minus(mean: float, deviation: float | None) -> str:
    return percent(mean) if deviation is None else f"{percent(mean)} ± {100 * deviation:.1f}"


def points(difference: float) -> str:
    """A difference of shares in points of a hundred, with its sign."""
    text = f"{100 * difference:+.1f}".replace("-", "−")
    return "0.0" if text in ("+0.0", "−0.0") else text


def chance(p: float | None) -> str:
    """A p-value; never 0 and never more exact than it is."""
    if p is None:
        return NOTHING
    if p < 0.001:
        return "< .001"
    return "1" if p > 0.9995 else f"{p:.3f}".lstrip("0")


def count(number: float | None) -> str:
    """Three digits that count, and thousands or millions."""
    if number is None:
        return NOTHING
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{_three(number / size)}{letter}"
    return f"{number:.0f}"


def seconds(time: float | None) -> str:
    if time is None:
        return NOTHING
    for size, unit in ((3600, "h"), (60, "min")):
        if time >= 2 * size:
            return f"{_three(time / size)} {unit}"
    return f"{time:.2g} s" if 0 < time < 0.95 else f"{_three(time)} s"


def memory(size: int | None) -> str:
    if size is None:
        return NOTHING
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def per_second(rate: float | None) -> str:
    return NOTHING if rate is None else f"{float(f'{rate:.3g}'):,.0f}" if rate >= 10 else f"{rate:.2g}"


def listed(items: list[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def _three(number: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(number))) if number > 0 else 0
    return f"{number:.{min(digits, 1)}f}"
