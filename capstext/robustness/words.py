"""What measured attacks say: means over runs, who is ahead where, and whether gradients are masked."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from capstext.comparison.report.statistics import LEVEL, mcnemar, mean_and_deviation
from capstext.comparison.report.wording import chance, percent, points
from capstext.robustness.measuring import EPSILONS, LEVELS, Measured, Record, of_capsules

NAMES = {
    "worst": "every attack at once",
    "fgsm": "FGSM, white box",
    "bim": "BIM, white box",
    "fgsm-own": "FGSM, white box, own loss",
    "bim-own": "BIM, white box, own loss",
    "transfer-fgsm": "FGSM, made with other models",
    "transfer-bim": "BIM, made with other models",
    "noise": "noise, ±ε by chance",
    "affine": "affine transformations",
    "shift": "shifts",
}
# No attack on the left should leave less than the one on the right, which knows more or searches longer.
WEAKER = (
    ("noise", "bim"),
    ("fgsm", "bim"),
    ("fgsm-own", "bim-own"),
    ("transfer-fgsm", "bim"),
    ("transfer-bim", "bim"),
    ("transfer-bim", "bim-own"),
    ("bim", "bim-own"),
)
VISIBLE = 0.005  # half a point
CLAIMED_CNN, CLAIMED_CAPSULES = 0.2, 0.7


class Score(NamedTuple):
    """A model's accuracy over its runs."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return mean_and_deviation(self.values)[0]

    @property
    def deviation(self) -> float | None:
        return mean_and_deviation(self.values)[1]


class Lead(NamedTuple):
    """Whether one model is right more often than another on the same images."""

    sign: int  # 1, -1, or 0: not told apart
    p: float


def level_name(attack: str, level: float) -> str:
    if attack == "shift":
        return f"{level:g} px"
    return f"{100 * level:g} %" if attack == "affine" else f"ε {level:g}"


def was_made(measured: Measured, name: str, attack: str) -> bool:
    """Whether the attack on a model was made at all: a model alone has no others."""
    return bool(_found(measured, name, attack, LEVELS[attack][0]))


def score(
    measured: Measured, name: str, attack: str, level: float = 0.0, *, source: str | None = None
) -> Score:
    """Of a model, under an attack made with itself or with all others; or with one that is named."""
    found = _found(measured, name, attack, level, source=source)
    by_run = [[one.accuracy for one in found if one.run == run] for run in measured.groups[name]]
    return Score(tuple(float(np.mean(values)) for values in by_run if values))


def lead(measured: Measured, name: str, other: str, attack: str, level: float = 0.0) -> Lead:
    """Ahead is who is right about more images, by McNemar's test and, with several runs each, in all runs."""
    mine, theirs = (_found(measured, one, attack, level) for one in (name, other))
    my_trials, their_trials = (sum(one.trials for one in found) for found in (mine, theirs))
    wins = their_trials * sum(one.right for one in mine) - my_trials * sum(one.right for one in theirs)
    p = mcnemar(np.asarray(wins) // int(np.gcd(my_trials, their_trials)))
    first, second = score(measured, name, attack, level), score(measured, other, attack, level)
    if p >= LEVEL:
        return Lead(0, p)
    if min(len(first.values), len(second.values)) > 1:
        return Lead((min(first.values) > max(second.values)) - (max(first.values) < min(second.values)), p)
    return Lead(1 if first.mean > second.mean else -1, p)


def clean_sentence(measured: Measured) -> str:
    """How fair the reading is."""
    names = list(measured.groups)
    told = "; ".join(f"{name} {_percent(score(measured, name, 'clean').mean)}" for name in names)
    start = f"Clean accuracy: {told}."
    if len(names) == 1:
        return start
    means = [score(measured, name, "clean").mean for name in names]
    apart = points(max(means) - min(means)).lstrip("+")
    leads = [lead(measured, a, b, "clean") for place, a in enumerate(names) for b in names[place + 1 :]]
    if any(one.sign for one in leads):
        return (
            f"{start} They are not alike ({apart} points apart, p {_p(min(one.p for one in leads))}): who is "
            "better on clean images starts higher, so read the fall, not the height."
        )
    return (
        f"{start} Robustness is read fairly only where clean accuracy is alike: here the models are {apart} "
        "points apart, which these images cannot tell from chance."
    )


def verdicts(measured: Measured) -> Iterator[str]:
    """One sentence for each attack, on who is ahead where; no model is ahead without its numbers.

    Own losses are left out: they differ, and a flat one is no merit.
    """
    names = list(measured.groups)
    for attack, title in NAMES.items():
        if len(names) < 2 or attack.endswith("-own") or not was_made(measured, names[0], attack):
            continue
        levels = [level for level in LEVELS[attack] if level]
        won: dict[str, list[str]] = {}
        open_levels = []
        for level in levels:
            best = [
                a for a in names if all(lead(measured, a, b, attack, level).sign > 0 for b in names if b != a)
            ]
            if best:
                won.setdefault(best[0], []).append(_beside(measured, best[0], attack, level))
            else:
                open_levels.append(level_name(attack, level))
        said = [f"{name} is ahead at {', '.join(places)}" for name, places in won.items()]
        if open_levels:
            said.append(f"no model is ahead at {', '.join(open_levels) if won else 'any level'}")
        yield f"{title[0].upper()}{title[1:]}: {'; '.join(said)}."


def claim(measured: Measured) -> str | None:
    """The figures that are told of matrix capsules, beside ours."""
    kinds: dict[bool, list[str]] = {True: [], False: []}
    for name, members in measured.groups.items():
        kinds[of_capsules(measured.runs[members[0]])].append(name)
    if not all(kinds.values()):
        return None
    told = (
        "It is told of matrix capsules on smallNORB (Hinton et al. 2018) that white-box FGSM brings a "
        "convolutional network below 20 % where capsules keep over 70 %."
    )
    for attack, aim in (("fgsm", "cross-entropy"), ("fgsm-own", "each model's own loss")):
        found = [
            f"{capsules} {_percent(ours)} beside {baseline} {_percent(theirs)} at ε {epsilon:g}"
            for capsules in kinds[True]
            for baseline in kinds[False]
            for epsilon in EPSILONS
            if (ours := score(measured, capsules, attack, epsilon).mean) > CLAIMED_CAPSULES
            and (theirs := score(measured, baseline, attack, epsilon).mean) < CLAIMED_CNN
        ]
        told += f" With {aim} as the aim, "
        told += f"so it is here: {'; '.join(found)}." if found else "that holds at no ε tried here."
        blind = {name: share for name in kinds[True] if (share := blindness(measured, name, "own"))}
        if found and attack == "fgsm-own" and blind:
            shares = ", ".join(f"{_percent(share)} of {name}'s" for name, share in blind.items())
            told += f" But {shares} images have no gradient by that loss, and were not changed at all."
    return told


def blindness(measured: Measured, name: str, loss: str) -> float:
    """The share of images where no pixel has a gradient by a loss, own or plain: mean over a model's runs."""
    return float(np.mean([measured.blind[run, loss] for run in measured.groups[name]]))


def masking(measured: Measured) -> Iterator[str]:
    """Signs that gradients lead nowhere though the model errs nearby. Athalye et al. 2018, section 3.1."""
    for name, members in measured.groups.items():
        own, plain = (blindness(measured, name, loss) for loss in ("own", "plain"))
        signs = [sign for weaker, stronger in WEAKER if (sign := _beaten(measured, name, weaker, stronger))]
        yield (
            f"{name}: no pixel has a gradient in {_percent(own)} of the images by its own loss "
            f"({measured.runs[members[0]].config.loss.name}), in {_percent(plain)} by cross-entropy. "
            + (
                f"Signs of masking: {'; '.join(signs)}."
                if signs
                else "No attack is beaten by one that should be weaker."
            )
        )


def _beaten(measured: Measured, name: str, weaker: str, stronger: str) -> str | None:
    """Where the weaker attack leaves less all the same, and its clearest case."""
    if not was_made(measured, name, weaker):
        return None
    gaps = {
        epsilon: score(measured, name, stronger, epsilon).mean - score(measured, name, weaker, epsilon).mean
        for epsilon in EPSILONS
    }
    where = [epsilon for epsilon, gap in gaps.items() if gap > VISIBLE]
    if not where:
        return None
    most = max(where, key=lambda epsilon: gaps[epsilon])
    less, more = (_percent(score(measured, name, attack, most).mean) for attack in (weaker, stronger))
    places = ", ".join(f"{epsilon:g}" for epsilon in where)
    beaten = f"“{NAMES[weaker]}” leaves less than “{NAMES[stronger]}”"
    return f"{beaten} at ε {places} (at {most:g} {less} against {more})"


def _found(
    measured: Measured, name: str, attack: str, level: float, *, source: str | None = None
) -> list[Record]:
    """Of a transfer without a named source, the images that other models made, not other seeds."""
    members = measured.groups[name]
    if source is not None:
        sources: Sequence[int | None] = measured.groups[source]
    else:
        sources = [None, *(run for run in range(len(measured.runs)) if run not in members)]
    return [
        one
        for one in measured.records
        if one.run in members
        and one.attack == attack
        and one.level == level
        and (one.source in sources or (source is None and one.source == one.run))
    ]


def _beside(measured: Measured, name: str, attack: str, level: float) -> str:
    """A level, and the scores of the best and the next."""
    rest = [other for other in measured.groups if other != name]
    nearest = max(rest, key=lambda other: score(measured, other, attack, level).mean)
    mine, theirs = (score(measured, one, attack, level).mean for one in (name, nearest))
    return f"{level_name(attack, level)} ({_percent(mine)} against {_percent(theirs)})"


def _percent(share: float) -> str:
    return f"{percent(share)} %"


def _p(value: float) -> str:
    return chance(value)
