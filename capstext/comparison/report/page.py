"""All results as one HTML page that needs nothing else: no request leaves it, and no name in it is run."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from capstext.comparison.report.blocks import Block, Bullets, Entry, Grid, Heading, Links, Paragraph

TITLE = "capstext: results"
SHORT = 36


def page(
    overview: Sequence[Block], datasets: Mapping[str, Sequence[Block]], pictures: Mapping[str, bytes]
) -> str:
    """The overview, then a section for each data set by the name of its page; pictures by file."""
    style, script = (_packaged(name) for name in ("page.css", "page.js"))
    # only these two texts may act, so markup that slipped through would still be dead
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    sections = [_section("overview", overview, pictures, deeper=0)]
    sections += [_section(name, blocks, pictures, deeper=1) for name, blocks in datasets.items()]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(TITLE)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(sections)
        + f"\n</main>\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _section(name: str, blocks: Sequence[Block], pictures: Mapping[str, bytes], *, deeper: int) -> str:
    inner = "\n".join(_block(block, pictures, deeper) for block in blocks)
    top = '<p><a href="#overview">overview</a></p>\n' if deeper else ""
    return f'<section id="{escape(name)}">\n{inner}\n{top}</section>'


def _block(block: Block, pictures: Mapping[str, bytes], deeper: int) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level + deeper}>{escape(block.text)}</h{block.level + deeper}>"
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Bullets):
        kind = "ol" if block.numbered else "ul"
        return f"<{kind}>{''.join(f'<li>{escape(item)}</li>' for item in block.items)}</{kind}>"
    if isinstance(block, Links):
        links = (f'<a href="#{escape(name)}">{escape(title)}</a>' for title, name in block.pages)
        return f"<nav>{' '.join(links)}</nav>"
    if isinstance(block, Grid):
        return _grid(block)
    data = base64.b64encode(pictures[block.file]).decode()
    return (
        f'<figure class="scroll"><img alt="{escape(block.shows)}" '
        f'src="data:image/svg+xml;base64,{data}"></figure>'
    )


def _grid(grid: Grid) -> str:
    """Every column can be sorted by its head."""
    kinds = [' class="word"' if place < grid.words else "" for place in range(len(grid.header))]
    head = "".join(
        f'<th scope="col"{kind}><button>{escape(title)}</button></th>'
        for title, kind in zip(grid.header, kinds, strict=True)
    )
    rows = (
        "<tr>" + "".join(_entry(entry, word=place < grid.words) for place, entry in enumerate(row)) + "</tr>"
        for row in grid.rows
    )
    return (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def _entry(entry: Entry, *, word: bool) -> str:
    text = f"<strong>{escape(entry.text)}</strong>" if entry.strong else escape(entry.text)
    order = "" if entry.order is None else f' data-order="{entry.order:.9g}"'
    # names stay on one line, sentences do not
    kind = "word" if len(entry.text) <= SHORT else "word long"
    return f'<td class="{kind}">{text}</td>' if word else f"<td{order}>{text}</td>"


def _packaged(name: str) -> str:
    return files("capstext.comparison.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
