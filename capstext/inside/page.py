"""A page as it grows: paragraphs, and pictures of right and of wrong images."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capstext.comparison.report.blocks import Block, Heading, Paragraph, Picture
from capstext.inside.examples import Seen
from capstext.inside.pictures import png

EXAMPLES = 8  # images in a picture


class Page:
    """What is written, in its order; pictures by file."""

    def __init__(self, seen: Seen, *, seed: int) -> None:
        self.seen, self.seed = seen, seed
        self.blocks: list[Block] = []
        self.pictures: dict[str, bytes] = {}

    def head(self, text: str, *, level: int = 2) -> None:
        self.blocks.append(Heading(level, text))

    def say(self, text: str) -> None:
        self.blocks.append(Paragraph(text))

    def show(self, file: str, shows: str, draw: Callable[[], Any]) -> None:
        self.pictures[file] = png(draw)
        self.blocks.append(Picture(file, shows))

    def right_and_wrong(
        self, stem: str, shows: str, among: NDArray[np.bool_], draw: Callable[[list[int], bool], Any]
    ) -> None:
        """A picture of some images that are right and one of some that are wrong, or that there are none."""
        for right, title in ((True, "right"), (False, "wrong")):
            chosen = among & (self.seen.right == right)
            rows = self.seen.some(chosen, most=EXAMPLES, seed=self.seed)
            if not rows:
                self.say(
                    f"None of these {among.sum():,} images is {title}: there is no picture of such ones."
                )
                continue
            self.say(f"{title.capitalize()} ones, {len(rows)} of {chosen.sum():,}:")
            self.show(f"{stem}-{title}.png", f"{shows}, {title} ones", lambda: draw(rows, right))  # noqa: B023
