"""The page robustness.md with its pictures and records: which model withstands what."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from capstext.comparison.report.wording import count, percent, plus_minus
from capstext.files import write_json, write_text, write_whole
from capstext.robustness import attacks
from capstext.robustness.measuring import EPSILONS, LEVELS, METHODS, SHOWN_EPSILONS, Measured
from capstext.robustness.pictures import pictures
from capstext.robustness.words import (
    NAMES,
    claim,
    clean_sentence,
    level_name,
    masking,
    score,
    verdicts,
    was_made,
)
from capstext.version import VERSION

FORMAT = 1
CHANGES = ("shift", "rotation", "scaling", "crop", "contrast")
ATTACKS = f"""Untargeted, within ±ε of each pixel; pixels are 0 to 1, never beyond, and not rounded to bytes.
FGSM is one step of ε by the sign of the gradient (Goodfellow et al. 2015); BIM is {attacks.STEPS} steps of
{attacks.STEP:g} ε, a new gradient for each (Kurakin et al. 2017). Their aim is plain cross-entropy over the
softmax of a model's log-odds, the same for all models, because the losses of capsules are flat where an image
is known well enough: margin loss has no gradient there, and an attack on it changes nothing. “Own loss” shows
that. “Made with other models” are images from the gradients of the other models, which need none of the model
that is tested. “Every attack at once” counts an image only where all attacks of that ε fail, those made with
other seeds of the model too; a stronger attack may leave less."""
MASKING = """A model whose gradients lead nowhere seems robust and is not (Athalye et al. 2018). Signs of it:
images without a gradient; attacks that know more or search longer, and do worse."""
MOVED = """Affine: each image turned by up to 20°, sheared by up to .2 and scaled by .8 to 1.2 on each side,
drawn at random from a share of these ranges of affNIST, in place. Shifts: by whole pixels to the left, the
right, up and down. Read both beside what the models were trained on, in the first table. What leaves an
image is lost."""


def write(measured: Measured, folder: Path) -> Path:
    """Make the page, its pictures and robustness.json; the page's path is returned."""
    drawn = pictures(measured)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in drawn.items():
        write_whole(folder / name, partial(_fill, content))
    write_json(folder / "robustness.json", as_dict(measured))
    page = folder / "robustness.md"
    write_text(page, "\n\n".join(_page(measured)) + "\n")
    return page


def as_dict(measured: Measured) -> dict[str, Any]:
    """Every accuracy that was measured."""
    names = {run: name for name, members in measured.groups.items() for run in members}
    return {
        "format": FORMAT,
        "capstext": VERSION,
        "data": measured.images.data,
        "split": measured.images.split,
        "images": len(measured.images.pixels),
        "seed": measured.seed,
        "bim": {"steps": attacks.STEPS, "step": attacks.STEP},
        "runs": [
            {
                "run": place,
                "folder": str(run.folder),
                "model": names[place],
                "seed": run.config.training.seed,
                "loss": run.config.loss.name,
                "without_gradient": {
                    "own": measured.blind[place, "own"],
                    "cross-entropy": measured.blind[place, "plain"],
                },
            }
            for place, run in enumerate(measured.runs)
        ],
        "ink": {str(by): share for by, share in measured.ink.items()},
        "records": [
            {
                "run": one.run,
                "attack": one.attack,
                "source": one.source,
                "level": one.level,
                "accuracy": one.accuracy,
            }
            for one in measured.records
        ],
    }


def _page(measured: Measured) -> Iterator[str]:
    images, first = measured.images, next(iter(measured.groups))
    yield "# What attacked and moved images do to the models"
    yield (
        f"Made by `capstext report robustness` on {len(images.pixels):,} images of {images.data}, "
        f"{images.split} (seed {measured.seed}), the same for all runs. Accuracy in per cent: the mean over "
        "the runs of a model and, with several, their deviation."
    )
    yield _models(measured)
    yield "## What it comes to"
    yield clean_sentence(measured)
    yield "\n".join(f"- {sentence}" for sentence in verdicts(measured)) or "One model alone: none is ahead."
    yield _rule(measured)
    if told := claim(measured):
        yield told
    yield "## Attacks"
    yield ATTACKS
    yield "![accuracy by ε, for FGSM, BIM, noise and all at once](attacks.svg)"
    for attack in NAMES:
        if LEVELS[attack] is EPSILONS and was_made(measured, first, attack):
            yield _table(measured, attack)
    if len(measured.runs) > 1:
        yield from _transfers(measured)
    yield "## Are gradients masked?"
    yield MASKING
    yield "\n".join(f"- {sentence}" for sentence in masking(measured))
    yield "## Turned and moved images"
    stays = ", ".join(f"{percent(share)} % at {by} px" for by, share in measured.ink.items() if by)
    yield f"{MOVED} Of all grey, this much stays: {stays}."
    yield "![accuracy by size of affine transformations and shifts](transformations.svg)"
    yield _table(measured, "affine")
    yield _table(measured, "shift")
    yield "## Some images"
    sizes = " and ".join(f"{epsilon:g}" for epsilon in SHOWN_EPSILONS)
    yield (
        "The first images that all runs know, and what BIM makes of them with the first run of each model at "
        f"ε {sizes}; under each, what each model says, in the order of the legend, and how sure it is."
    )
    yield "![test images, clean and attacked, with what each model says](images.png)"


def _models(measured: Measured) -> str:
    rows = []
    for name, members in measured.groups.items():
        run, clean = measured.runs[members[0]], score(measured, name, "clean")
        changes = {change: getattr(run.config.images, change) for change in CHANGES}
        seen = ", ".join(f"{change} {size:g}" for change, size in changes.items() if size)
        parameters = sum(parameter.numel() for parameter in run.model.parameters())
        cells = (_cell(name), str(len(members)), count(parameters), run.config.loss.name)
        rows.append([*cells, seen or "plain images", plus_minus(clean.mean, clean.deviation)])
    return _rows(["model", "runs", "parameters", "loss", "trained on", "clean"], rows)


def _rule(measured: Measured) -> str:
    single = min(map(len, measured.groups.values())) == 1
    return (
        "A model is called ahead where McNemar's test on the same images gives p < .05"
        + ("; with one run of a model, another seed may turn it" if single else "")
        + ("" if single else " and every run of it beats every run of the others")
        + ". Many levels are tested: a lead at one alone means little."
    )


def _table(measured: Measured, attack: str) -> str:
    levels = LEVELS[attack]
    rows = []
    for name in measured.groups:
        if was_made(measured, name, attack):
            scores = [score(measured, name, attack, level) for level in levels]
            rows.append([_cell(name), *(plus_minus(one.mean, one.deviation) for one in scores)])
    heads = [level_name(attack, level) for level in levels]
    return f"**{NAMES[attack][0].upper()}{NAMES[attack][1:]}**\n\n" + _rows(["model", *heads], rows)


def _transfers(measured: Measured) -> Iterator[str]:
    """Who fools whom: the diagonal is a model against its other seeds."""
    yield "**Who fools whom**: accuracy of each model on images made with another run, by that run's model."
    for method in METHODS:
        rows = []
        for name in measured.groups:
            for source in measured.groups:
                scores = [
                    score(measured, name, f"transfer-{method}", epsilon, source=source)
                    for epsilon in EPSILONS
                ]
                if scores[0].values:
                    made_with = "its other seeds" if source == name else _cell(source)
                    cells = (plus_minus(one.mean, one.deviation) for one in scores)
                    rows.append([_cell(name), made_with, *cells])
        heads = [f"ε {epsilon:g}" for epsilon in EPSILONS]
        yield f"{method.upper()}:\n\n" + _rows(["model", "made with", *heads], rows)


def _rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _fill(content: bytes, path: Path) -> None:
    path.write_bytes(content)
