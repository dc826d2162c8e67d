"""Sheets of small images with captions, as PNG: the same bytes every time."""

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from capstext.comparison.report.drawing import BASELINES, CAPSULES, STYLE, new_figure
from capstext.inside.couplings import Lattice

TILE = 1.05  # inches
SMALL = 0.46
CAPTION = 0.24
LEAST = 0.15  # how much is left of the colour of capsules that sleep
DIMMED = 0.6  # an image below its heat


class Heat(NamedTuple):
    """Shares from 0 to 1, how active what gives them is, and where it lies."""

    shares: NDArray[np.float32]
    weight: NDArray[np.float32]
    lattice: Lattice


class Tile(NamedTuple):
    """An image [H, W] or [H, W, 3] from 0 to 1, a line below it, and heat over it."""

    image: NDArray[np.float32]
    caption: str = ""
    heat: Heat | None = None


def visible(image: Tensor) -> NDArray[np.float32]:
    """[C, H, W] as it can be shown: in colour, or one channel (of two, as in stereo, the first) in grey."""
    pixels = image.cpu().numpy()
    return np.moveaxis(pixels, 0, -1) if len(pixels) == 3 else pixels[0]


def in_two_colours(first: Tensor, second: Tensor, *, below: Tensor | None = None) -> NDArray[np.float32]:
    """Two images [C, H, W] over each other, light where both are; `below` shows dimly."""
    from matplotlib.colors import to_rgb

    inks = [image.mean(dim=0).cpu().numpy()[..., None] for image in (first, second)]
    mixed = sum(
        ink * np.array(to_rgb(colour)) for ink, colour in zip(inks, (CAPSULES, BASELINES), strict=True)
    )
    if below is not None:
        mixed = mixed + 0.2 * below.mean(dim=0).cpu().numpy()[..., None]
    return np.clip(mixed, 0, 1).astype(np.float32)


def png(draw: Callable[[], Any]) -> bytes:
    """What `draw` draws, in the style of all reports."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # shown as an empty box
        draw().savefig(buffer, format="png", dpi=144, metadata={"Software": None})
    return buffer.getvalue()


def sheet(columns: Sequence[Sequence[Tile]], names: Sequence[str], *, equal: float = 0.0) -> Any:
    """An example a column; `names` says what each row shows. Heat is centred on the share `equal`."""
    heats = [tile.heat for column in columns for tile in column if tile.heat is not None]
    margin = 1.0 if heats else 0.4
    figure = new_figure(margin + (TILE + 0.1) * len(columns), (TILE + CAPTION) * len(names) + 0.1)
    grid = figure.subplots(len(names), len(columns), squeeze=False)
    norm, colours = _scale(heats, equal, middle="black") if heats else (None, None)
    for across, column in enumerate(columns):
        for down, tile in enumerate(column):
            _tile(grid[down][across], tile, norm, colours)
    for row, name in zip(grid, names, strict=True):
        row[0].set_ylabel(name, fontsize=8)
    if heats:
        _legend(figure, grid[1:], norm, colours)
    return figure


def moves(images: NDArray[np.float32], steps: Sequence[float]) -> Any:
    """Images [D, steps, H, W] or [..., 3]: a row for each number of a capsule, a column for each step."""
    from matplotlib.patches import Rectangle

    high, wide = images.shape[2:4]
    gap = max(1, high // 14)
    rows, columns = np.arange(len(images)) * (high + gap), np.arange(len(steps)) * (wide + gap)
    mosaic = np.ones((rows[-1] + high, columns[-1] + wide, *images.shape[4:]), dtype=np.float32)
    for top, line in zip(rows, images, strict=True):
        for left, image in zip(columns, line, strict=True):
            mosaic[top : top + high, left : left + wide] = image
    figure = new_figure(SMALL * len(steps) + 0.4, SMALL * len(images) + 0.4)
    axes = figure.subplots()
    _bare(axes)
    axes.imshow(mosaic, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    signed = [f"{step:+.2f}".replace("-", "−") if step else "0" for step in steps]
    axes.set_xticks(columns + wide / 2 - 0.5, signed, fontsize=7)
    axes.set_yticks(rows + high / 2 - 0.5, range(1, len(rows) + 1), fontsize=8)
    axes.tick_params(length=0, labelbottom=False, labeltop=True)
    corner = columns[list(steps).index(0)] - 0.5 - gap / 2, -0.5 - gap / 2
    frame = Rectangle(corner, wide + gap, len(mosaic) + gap, fill=False, clip_on=False)
    frame.set(edgecolor=CAPSULES, linewidth=1.5)
    axes.add_patch(frame)
    return figure


def shares(tiles: Sequence[Tile], classes: Sequence[str], *, equal: float) -> Any:
    """Images, and below each its heat: the shares [classes, capsules] of capsules that lie at one place."""
    heats = [tile.heat for tile in tiles if tile.heat is not None]
    capsules = heats[0].shares.shape[1]
    wide, high = max(TILE, 0.09 * capsules), 0.15 * len(classes)
    figure = new_figure(1.4 + (wide + 0.12) * len(tiles), TILE + CAPTION + high + 0.5)
    grid = figure.subplots(2, len(tiles), squeeze=False, height_ratios=(TILE, high))
    norm, colours = _scale(heats, equal, middle="white")
    for above, below, tile, heat in zip(*grid, tiles, heats, strict=True):
        _tile(above, tile._replace(heat=None), norm, colours)
        _bare(below)
        below.imshow(heat.shares, norm=norm, cmap=colours, alpha=_cover(heat), aspect="auto")
        below.set_xlabel(f"{capsules} capsules", fontsize=8)
    grid[1][0].set_yticks(range(len(classes)), classes, fontsize=8)
    grid[1][0].tick_params(length=0)
    _legend(figure, grid[1], norm, colours)
    return figure


def _tile(axes: Any, tile: Tile, norm: Any, colours: Any) -> None:
    _bare(axes)
    axes.imshow(tile.image * (DIMMED if tile.heat else 1.0), cmap="gray", vmin=0, vmax=1)
    axes.set_xlabel(tile.caption, fontsize=8, labelpad=2)
    if tile.heat is None:
        return
    high, wide = tile.heat.shares.shape
    start, step, _ = tile.heat.lattice
    near, bottom, right = (start + (count - 0.5) * step for count in (0, high, wide))
    glow = colours(norm(tile.heat.shares))
    strength = glow[..., :3].max(axis=-1)  # an equal share is black, and shines through
    glow[..., :3] /= np.maximum(strength, 1e-6)[..., None]
    glow[..., 3] = strength * _cover(tile.heat)
    axes.imshow(glow, extent=(near, right, bottom, near), interpolation="nearest")
    axes.set(xlim=(-0.5, tile.image.shape[1] - 0.5), ylim=(tile.image.shape[0] - 0.5, -0.5))


def _bare(axes: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _cover(heat: Heat) -> Any:
    return np.broadcast_to(LEAST + (1 - LEAST) * heat.weight, heat.shares.shape)


def _scale(heats: Sequence[Heat], equal: float, *, middle: str) -> tuple[Any, Any]:
    """Blue below and orange above equal shares; half as much is as far from them as twice as much."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    ratio = max(1.2, *(float(heat.shares.max()) / equal for heat in heats))
    colours = LinearSegmentedColormap.from_list("shares", [BASELINES, middle, CAPSULES])
    return LogNorm(equal / ratio, equal * ratio, clip=True), colours


def _legend(figure: Any, beside: Any, norm: Any, colours: Any) -> None:
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(ScalarMappable(norm, colours), ax=beside, pad=0.01, aspect=25)
    ticks = [norm.vmin, (norm.vmin * norm.vmax) ** 0.5, norm.vmax]
    bar.minorticks_off()
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks], fontsize=8)
    bar.set_label("share", fontsize=8)
