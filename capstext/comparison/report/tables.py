"""Pages of results as Markdown. Names from data are shown as they are, never read as markup."""

import re
from collections.abc import Sequence

from capstext.comparison.report.blocks import Block, Bullets, Entry, Grid, Heading, Links, Paragraph, Picture


def markdown(blocks: Sequence[Block], *, folder: str = "") -> str:
    """The whole page; `folder` is the way from it to the pages of the data sets and their pictures."""
    return "\n\n".join(_block(block, folder) for block in blocks) + "\n"


def escaped(text: str) -> str:
    """Plain text for a line of Markdown or a cell of its tables."""
    text = " ".join(text.split())
    for sign, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, instead)
    # an underscore inside a word is no emphasis, so names such as ag_news stay readable
    return re.sub(r"[\\`*\[|$]|(?<![^\W_])_|_(?![^\W_])|^[#+-](?= )", r"\\\g<0>", text)


def _block(block: Block, folder: str) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {escaped(block.text)}"
    if isinstance(block, Paragraph):
        return escaped(block.text)
    if isinstance(block, Picture):
        return f"![{escaped(block.shows)}]({folder}{block.file})"
    if isinstance(block, Links):
        return ", ".join(f"[{escaped(title)}]({folder}{page}.md)" for title, page in block.pages)
    if isinstance(block, Bullets):
        marks = [f"{number}." if block.numbered else "-" for number in range(1, len(block.items) + 1)]
        return "\n".join(f"{mark} {escaped(item)}" for mark, item in zip(marks, block.items, strict=True))
    return _grid(block)


def _grid(grid: Grid) -> str:
    columns = len(grid.header)
    rule = [":---" if column < grid.words else "---:" for column in range(columns)]
    lines = [_line([escaped(title) for title in grid.header]), _line(rule)]
    return "\n".join([*lines, *(_line([_entry(entry) for entry in row]) for row in grid.rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _entry(entry: Entry) -> str:
    return f"**{escaped(entry.text)}**" if entry.strong else escaped(entry.text)
