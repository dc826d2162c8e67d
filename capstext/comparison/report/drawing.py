"""How the pictures of a report look: one style, two colours, the same bytes every time.

Capsules have one colour and baselines another, told apart by colour-blind eyes too (Okabe and Ito 2008),
and by the shape of their marks.
"""

import io
from typing import Any

from capstext.comparison.report.cells import Cell, Table

CAPSULES, BASELINES, PUBLISHED, GREY = "#D55E00", "#0072B2", "#000000", "#666666"
MARKS = {False: "o", True: "s"}  # by whether it is a baseline
LONGEST = 34
STYLE: Any = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "capstext",
    "svg.fonttype": "path",
    "text.parse_math": False,  # a dollar in a name is a dollar
}


def new_figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # 72, as SVG has it: what is measured now stays where it is
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    figure = Figure(figsize=(width, height), dpi=72, layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def as_svg(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def colour_of(cell: Cell) -> str:
    return BASELINES if cell.baseline else CAPSULES


def drawable(text: str, *, longest: int = LONGEST) -> str:
    """What can be drawn, and not too long."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def names_of(table: Table) -> list[str]:
    """Models, with their embeddings where a model has several."""
    models = [cell.model for cell in table.cells]
    return [drawable(cell.name if models.count(cell.model) > 1 else cell.model) for cell in table.cells]
