"""What a page of results is made of before it is Markdown or HTML: plain text, no markup inside."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A cell of a grid; `order` is what a column of numbers is sorted by."""

    text: str
    order: float | None = None
    strong: bool = False


@dataclass(frozen=True)
class Grid:
    """Columns of words on the left, of numbers on the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    words: int = 1  # so many columns on the left are words


@dataclass(frozen=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True)
class Picture:
    """A file beside the pages of the data sets, and what it shows."""

    file: str
    shows: str


@dataclass(frozen=True)
class Links:
    """The pages of the data sets: titles, and names of the pages."""

    pages: tuple[tuple[str, str], ...]


Block = Grid | Heading | Paragraph | Bullets | Picture | Links
