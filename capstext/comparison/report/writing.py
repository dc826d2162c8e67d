"""From finished runs to results.json, results.md, results.html, and a page and pictures a data set."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from capstext.comparison.records import Record
from capstext.comparison.report import background, content
from capstext.comparison.report.blocks import Block, Picture
from capstext.comparison.report.page import page
from capstext.comparison.report.plots import pictures
from capstext.comparison.report.results import tables
from capstext.comparison.report.results_file import as_json
from capstext.comparison.report.tables import markdown
from capstext.errors import CapstextError
from capstext.files import write_json, write_text

PAGES = "results"


def write(records: Sequence[Record], folder: Path) -> list[Path]:
    """Make the whole report anew; pages of data sets that are not among the records are left alone."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise CapstextError(f"{error.name} is not installed; pip install 'capstext[report]'") from None
    if not records:
        raise CapstextError(f"{folder}: no finished runs to report on")
    found = tables(records)
    pages = {name: file_name(name) for name in dict.fromkeys(table.dataset for table in found)}
    drawn: dict[str, bytes] = {}
    shown: dict[tuple[str, str, str], content.Pictures] = {}
    parts = background.parts(found)
    for table in found:
        stem = "-".join(file_name(part) for part in parts[table.key])
        listed = {}
        for what, (image, shows) in pictures(table).items():
            listed[what] = Picture(f"{stem}-{what}.svg", shows)
            drawn[listed[what].file] = image
        shown[table.key] = listed
    overview = content.overview(found, pages=pages)
    datasets: dict[str, list[Block]] = {
        page_name: content.dataset(name, [table for table in found if table.dataset == name], shown)
        for name, page_name in pages.items()
    }
    inner = folder / PAGES
    inner.mkdir(parents=True, exist_ok=True)
    texts = {
        folder / "results.md": markdown(overview, folder=f"{PAGES}/"),
        folder / "results.html": page(overview, datasets, drawn),
        **{inner / f"{name}.md": markdown(blocks) for name, blocks in datasets.items()},
        **{inner / name: image.decode() for name, image in drawn.items()},
    }
    write_json(folder / "results.json", as_json(found))
    for path, text in texts.items():
        write_text(path, text)
    return [folder / "results.json", *texts]


def file_name(title: str) -> str:
    """A name that every file system and link takes; titles that it changes stay apart by their hash."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", title).strip("-.")
    return name if name == title else f"{name}-{hashlib.sha256(title.encode()).hexdigest()[:6]}".lstrip("-")
