"""Names beside the points of a plot, so that none lies on another name or point."""

import itertools
from collections.abc import Sequence
from typing import Any

Box = tuple[float, float, float, float]  # left, bottom, right, top, in pixels

# Tried one after the other: the side of the point, then further out.
DISTANCES = (7, 14, 24, 36, 50, 66, 84, 104)
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def place_labels(
    axes: Any, points: Sequence[tuple[float, float]], names: Sequence[str], **style: Any
) -> None:
    """Write each name near its point where there is room; a thin line leads to names further out."""
    figure = axes.figure
    renderer = figure.canvas.get_renderer()
    figure.draw_without_rendering()  # the layout moves the axes, and pixels with them
    frame = axes.get_window_extent(renderer)
    pixels = [tuple(axes.transData.transform(point)) for point in points]
    scale = figure.dpi / 72
    taken: list[Box] = [(x - 4 * scale, y - 4 * scale, x + 4 * scale, y + 4 * scale) for x, y in pixels]
    # from the top down, so that the same points give the same picture
    for number in sorted(range(len(points)), key=lambda one: (-pixels[one][1], pixels[one][0])):
        text = axes.text(0, 0, names[number], **style)
        size = text.get_window_extent(renderer)
        text.remove()
        where, side, distance = _room(pixels[number], (size.width, size.height), frame, taken, scale)
        taken.append(where)
        # the line ends at the name's side that looks at the point
        line = {
            "arrowstyle": "-",
            "color": "#999999",
            "linewidth": 0.6,
            "shrinkA": 0,
            "shrinkB": 3,
            "relpos": tuple({1: 0.0, 0: 0.5, -1: 1.0}[part] for part in side),
        }
        axes.annotate(
            names[number],
            xy=points[number],
            xytext=tuple((end - start) / scale for start, end in zip(pixels[number], where[:2], strict=True)),
            textcoords="offset points",
            va="bottom",
            arrowprops=line if distance > DISTANCES[0] else None,
            **style,
        ).set_in_layout(False)


def _room(
    point: tuple[float, float],
    size: tuple[float, float],
    frame: Any,
    taken: Sequence[Box],
    scale: float,
) -> tuple[Box, tuple[int, int], int]:
    """The nearest free place inside the frame, or the one that covers least."""
    width, height = size
    best: tuple[float, Box, tuple[int, int], int] | None = None
    for distance, side in itertools.product(DISTANCES, SIDES):
        x, y = (part + sign * distance * scale for part, sign in zip(point, side, strict=True))
        left = x - width * (1 - side[0]) / 2
        bottom = y - height * (1 - side[1]) / 2
        box = (left, bottom, left + width, bottom + height)
        inside = frame.x0 <= box[0] and box[2] <= frame.x1 and frame.y0 <= box[1] and box[3] <= frame.y1
        covered = sum(_overlap(box, other) for other in taken) + (0 if inside else 1e6)
        if covered == 0:
            return box, side, distance
        if best is None or covered < best[0]:
            best = covered, box, side, distance
    assert best is not None
    return best[1:]


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)
