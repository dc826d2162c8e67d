import itertools

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from capstext.comparison.report.label_placing import place_labels


@pytest.mark.parametrize("count", [1, 5, 16])
def test_names_of_crowded_points_lie_apart_and_inside(count):
    figure = Figure(figsize=(7.6, 4.6), dpi=72)
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    points = [(1.0 + 0.01 * (number % 4), 1.0 + 0.02 * (number // 4)) for number in range(count)]
    axes.plot(*zip(*points, strict=True), "o")
    axes.set(xlim=(0, 2), ylim=(0, 2))
    place_labels(axes, points, [f"model number {number}" for number in range(count)], fontsize=8)
    renderer = figure.canvas.get_renderer()
    for annotation in axes.texts:
        annotation.update_positions(renderer)
    # the text alone: an annotation's own extent includes its line
    boxes = [Text.get_window_extent(annotation, renderer) for annotation in axes.texts]
    frame = axes.get_window_extent(renderer)
    assert len(axes.texts) == count
    assert not any(one.shrunk(0.98, 0.9).overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)
