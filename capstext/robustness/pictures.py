"""Pictures of measured attacks: accuracy by the size of the change, and what models say of changed images."""

import io
import warnings
from itertools import count
from textwrap import fill
from typing import Any

import torch

from capstext.comparison.report.drawing import (
    BASELINES,
    CAPSULES,
    GREY,
    MARKS,
    STYLE,
    as_svg,
    drawable,
    new_figure,
)
from capstext.models.image import ImageModel
from capstext.robustness import attacks
from capstext.robustness.measuring import LEVELS, SHOWN_EPSILONS, Measured, of_capsules
from capstext.robustness.words import NAMES, level_name, score, was_made

LINES = ("-", "--", ":", "-.")  # of several models of one kind
PANELS = (("fgsm", "fgsm-own", "transfer-fgsm", "noise"), ("bim", "bim-own", "transfer-bim", "worst"))
TRANSFORMATIONS = {"affine": "share of affNIST's ranges", "shift": "pixels, mean of four ways"}
MOST_COLUMNS = 4  # models in the picture of images


def pictures(measured: Measured) -> dict[str, bytes]:
    """Files by name."""
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # shown as an empty box
        return {
            "attacks.svg": as_svg(attack_curves(measured)),
            "transformations.svg": as_svg(transformation_curves(measured)),
            "images.png": _as_png(example_images(measured)),
        }


def attack_curves(measured: Measured) -> Any:
    """FGSM above, BIM below: by cross-entropy, by the own loss, made with others; noise, and the worst."""
    figure = new_figure(11.6, 5.2)
    grid = figure.subplots(2, 4, sharex=True, sharey=True)
    for axes, attack in zip(grid.flat, [attack for row in PANELS for attack in row], strict=True):
        _curves(axes, measured, attack)
    for axes in grid[-1]:
        axes.set_xlabel("ε, of a pixel's range")
    _finish(figure, grid, measured)
    return figure


def transformation_curves(measured: Measured) -> Any:
    """Affine transformations and shifts."""
    figure = new_figure(9.2, 3.2)
    grid = figure.subplots(1, 2, sharey=True, squeeze=False)
    for axes, (attack, size) in zip(grid.flat, TRANSFORMATIONS.items(), strict=True):
        _curves(axes, measured, attack)
        axes.set_xlabel(size)
        axes.set_xticks(LEVELS[attack], [level_name(attack, level) for level in LEVELS[attack]])
    _finish(figure, grid, measured)
    return figure


def example_images(measured: Measured) -> Any:
    """Rows of test images, as they are and as BIM makes them with each model; below, what each model says."""
    names = list(measured.groups)[:MOST_COLUMNS]
    first = [measured.groups[name][0] for name in names]
    plain = measured.images.pixels[torch.from_numpy(measured.shown)]
    columns = [("clean", plain)] + [
        (
            f"made with\n{fill(drawable(name, longest=60), 20)}\nε {epsilon:g}",
            measured.adversarial[run, epsilon],
        )
        for name, run in zip(names, first, strict=True)
        for epsilon in SHOWN_EPSILONS
    ]
    classes = measured.runs[0].classes
    figure = new_figure(1.5 * len(columns), 0.8 + (1.25 + 0.17 * len(names)) * len(plain))
    grid = figure.subplots(len(plain), len(columns), squeeze=False)
    labels = measured.images.labels[torch.from_numpy(measured.shown)].tolist()
    for column, (title, images) in enumerate(columns):
        said = [_says(measured, run, images) for run in first]
        for row, image in enumerate(images):
            axes = grid[row, column]
            axes.imshow(_grey(image), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(True)
            axes.spines[:].set_color("#cccccc")
            for place, (name, answers) in enumerate(zip(names, said, strict=True)):
                label, sure = answers[row]
                right = label == labels[row]
                text = f"{drawable(classes[label], longest=12)}  {sure:.0%}  {'right' if right else 'wrong'}"
                style: dict[str, Any] = {"weight": "normal" if right else "bold", "fontsize": 7}
                axes.text(
                    0.5,
                    -0.05 - 0.17 * place,
                    text,
                    color=_colour(measured, name),
                    transform=axes.transAxes,
                    ha="center",
                    va="top",
                    **style,
                )
        grid[0, column].set_title(title, fontsize=8)
    _legend(figure, measured, names)
    return figure


def _curves(axes: Any, measured: Measured, attack: str) -> None:
    axes.set_title(NAMES[attack], fontsize=9, loc="left")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.axhline(100 / len(measured.runs[0].classes), color=GREY, linewidth=0.8, linestyle=":")
    for name, style in _styles(measured).items():
        if not was_made(measured, name, attack):
            continue
        levels = LEVELS[attack]
        scores = [score(measured, name, attack, level) for level in levels]
        if levels[0]:  # the curve begins at the clean images
            levels, scores = (0.0, *levels), [score(measured, name, "clean"), *scores]
        means = [100 * one.mean for one in scores]
        axes.plot(levels, means, markersize=4, linewidth=1.4, **style)
        if scores[0].deviation is not None:
            spread = [100 * (one.deviation or 0.0) for one in scores]
            low, high = ([m + sign * s for m, s in zip(means, spread, strict=True)] for sign in (-1, 1))
            axes.fill_between(levels, low, high, color=style["color"], alpha=0.15, linewidth=0)


def _styles(measured: Measured) -> dict[str, dict[str, Any]]:
    """Colour and mark by kind, the line by the model."""
    used = {True: count(), False: count()}
    styles = {}
    for name, members in measured.groups.items():
        capsules = of_capsules(measured.runs[members[0]])
        line = LINES[next(used[capsules]) % len(LINES)]
        styles[name] = {"color": _colour(measured, name), "marker": MARKS[not capsules], "linestyle": line}
    return styles


def _colour(measured: Measured, name: str) -> str:
    return CAPSULES if of_capsules(measured.runs[measured.groups[name][0]]) else BASELINES


def _finish(figure: Any, grid: Any, measured: Measured) -> None:
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy, %")
    grid[0, 0].set_ylim(-2, 102)
    _legend(figure, measured, list(measured.groups), chance=True)


def _legend(figure: Any, measured: Measured, names: list[str], *, chance: bool = False) -> None:
    from matplotlib.lines import Line2D

    styles = _styles(measured)
    handles = [Line2D([], [], label=drawable(name, longest=60), **styles[name]) for name in names]
    if chance:
        handles.append(Line2D([], [], color=GREY, linestyle=":", label="chance"))
    figure.legend(
        handles=handles, frameon=False, loc="outside upper right", ncols=3, fontsize=8, handlelength=3
    )


def _says(measured: Measured, run: int, images: torch.Tensor) -> list[tuple[int, float]]:
    """The class and the probability that a run gives to each image."""
    model = measured.runs[run].model
    assert isinstance(model, ImageModel)
    sure, label = model.calibration(attacks.log_odds(model, images)).softmax(dim=-1).max(dim=-1)
    return list(zip(label.tolist(), sure.tolist(), strict=True))


def _grey(image: torch.Tensor) -> Any:
    """The mean of the channels: two of them are no colours."""
    return image.mean(dim=0).cpu().numpy()


def _as_png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144, metadata={"Software": None})
    return buffer.getvalue()
