"""The sections of the page: reconstructions, overlaps, dimensions and couplings."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from capstext.comparison.report.drawing import drawable
from capstext.inside.couplings import Couplings, couplings, lattice, leaks
from capstext.inside.drawings import STEPS, drawn, moved
from capstext.inside.examples import Seen
from capstext.inside.page import Page
from capstext.inside.pictures import Heat, Tile, in_two_colours, moves, shares, sheet, visible

MOVED = 3  # classes whose capsules are moved


def reconstructions(page: Page) -> None:
    """Images of one class, drawn again. Sabour et al. 2017, figure 3."""
    seen = page.seen
    single = seen.counts == 1
    if not single.any():
        return
    page.head("Images drawn again")
    page.say(
        "On top an image and its class. Below it what the decoder makes of the capsule of one class, and the "
        "length of that capsule: of the true class and, where it is another, of the predicted class. "
        "Sabour et al. 2017, figure 3."
    )

    def draw(rows: list[int], right: bool) -> Any:
        true, predicted = seen.split.labels[rows].argmax(axis=1), seen.order[rows, 0]
        names = ["drawn"] if right else ["drawn from the\ntrue class", "drawn from the\npredicted class"]
        columns = [
            [Tile(visible(image), _name(seen, shown))]
            for image, shown in zip(seen.images(rows), true.tolist(), strict=True)
        ]
        for _, classes in zip(names, (true.tolist(), predicted.tolist()), strict=False):
            images = drawn(seen, rows, classes)
            for column, row, shown, image in zip(columns, rows, classes, images, strict=True):
                column.append(Tile(visible(image), _measured(seen, row, shown)))
        return sheet(columns, ["input", *names])

    page.right_and_wrong("reconstructions", "images and their reconstructions", single, draw)


def overlaps(page: Page) -> None:
    """Images of two classes, each drawn alone. Sabour et al. 2017, figure 5."""
    seen = page.seen
    pairs = seen.counts == 2
    if not pairs.any():
        return
    known = seen.split.parts is not None
    page.head("Two classes in one image, drawn apart")
    page.say(
        f"On top an image of two classes{', then the two parts it was made of' if known else ''}. Below it "
        "what the decoder makes of the two most active capsules, each drawn alone: the first in orange, "
        "the second in blue, light where both are, dark grey where the image has what neither draws. "
        "Where the prediction is wrong, the last row has the capsules of the true classes. "
        "Sabour et al. 2017, figure 5."
    )

    def draw(rows: list[int], right: bool) -> Any:
        names = ["input", *(["true parts"] if known else []), "drawn from the\ntwo most active"]
        columns = [_pair(seen, row, right=right) for row in rows]
        return sheet(columns, names if right else [*names, "drawn from the\ntrue classes"])

    page.right_and_wrong("overlaps", "overlapping images drawn apart", pairs, draw)


def _pair(seen: Seen, row: int, *, right: bool) -> list[Tile]:
    image = seen.images([row])[0]
    active = seen.order[row, :2].tolist()
    true = np.flatnonzero(seen.split.labels[row]).tolist()
    if true[0] == active[1] or true[1] == active[0]:
        true.reverse()  # a class has one colour in all tiles
    tiles = [Tile(visible(image), _names(seen, sorted(true)))]
    if parts := dict(seen.parts(row)):
        tiles.append(Tile(in_two_colours(*(parts[shown] for shown in true)), _names(seen, true)))
    for classes in (active,) if right else (active, true):
        mixed = in_two_colours(*drawn(seen, [row, row], classes), below=image)
        tiles.append(Tile(mixed, ", ".join(_measured(seen, row, shown) for shown in classes)))
    return tiles


def dimensions(page: Page) -> None:
    """Class capsules with one number moved. Sabour et al. 2017, figure 4."""
    seen = page.seen
    any_right = bool(seen.right.any())
    page.head("What the numbers of a capsule mean")
    page.say(
        f"Each row moves one number of a class capsule by {STEPS[0]:g} to {STEPS[-1]:g}, in steps of "
        f"{STEPS[1] - STEPS[0]:.2f}. Framed in the middle is the plain drawing. Sabour et al. 2017, figure 4."
        + ("" if any_right else " No image is right, so these are wrong ones.")
    )
    rows = seen.some(seen.right == any_right, most=MOVED, seed=page.seed)
    for number, row in enumerate(rows, start=1):
        shown = int(seen.split.labels[row].argmax())
        images = np.stack([[visible(image) for image in line] for line in moved(seen, row, shown)])
        page.say(
            f"An image of {seen.classes[shown]}, whose capsule has the length {_length(seen, row, shown)}:"
        )
        page.show(
            f"dimensions-{number}.png",
            f"each number of the capsule of {seen.classes[shown]} moved",
            lambda: moves(images, STEPS),  # noqa: B023
        )


def origins(page: Page) -> None:
    """Which places the capsules of a class come from."""
    seen = page.seen
    high, wide, capsules = couplings(seen, [0]).activation.shape[1:]
    leaky, field = leaks(seen.network), lattice(seen.network).field
    equal = 1 / (len(seen.classes) + leaky)
    page.head("Where a class comes from")
    page.say(
        f"{capsules} capsules at each of {high} x {wide} places are routed to {len(seen.classes)} classes. "
        "How each capsule shares itself among these are its couplings; one that cannot decide gives "
        f"{equal:.2g} to each{', and as much to none (the leak)' if leaky else ''}."
    )
    if high * wide == 1:
        page.say(
            "One place, which sees the whole image, makes no map. So below an image are the couplings of its "
            "capsules, a column each: orange above an equal share, blue below it, and the fainter the less "
            "active the capsule is. The line below an image has its classes and, where they are others, "
            "those predicted. Each picture has a scale of its own."
        )
    else:
        page.say(
            "Below an image: how much of the capsules of each place, weighted by their activation, goes to a "
            "class; orange above an equal share, blue below it, and the fainter the less active the capsules "
            f"are. A square lies at the centre of what its place sees, {field} x {field} pixels with what is "
            "beyond the edge. Right images have the two most active classes, wrong ones a class predicted "
            "wrongly and a true one missed. Each picture has a scale of its own."
        )

    def draw(rows: list[int], right: bool) -> Any:
        found = couplings(seen, rows)
        if high * wide == 1:
            tiles = [_shared(seen, found, place, row) for place, row in enumerate(rows)]
            return shares(tiles, [drawable(name, longest=12) for name in seen.classes], equal=equal)
        columns = [_heated(seen, found, place, row) for place, row in enumerate(rows)]
        names = ("most\nactive class", "next class") if right else ("class\npredicted", "class\nmissed")
        return sheet(columns, ["input", *(f"to the {name}" for name in names)], equal=equal)

    page.right_and_wrong("couplings", "couplings of the places of an image", np.ones_like(seen.right), draw)


def _heated(seen: Seen, found: Couplings, place: int, row: int) -> list[Tile]:
    """An image, and over it what goes to two classes."""
    image = visible(seen.images([row])[0])
    true, predicted = seen.split.labels[row], seen.predicted[row]
    toward = seen.order[row, :2].tolist()
    if not seen.right[row]:
        toward = [int((predicted & ~true).argmax()), int((true & ~predicted).argmax())]
    heats = [
        Heat(_numbers(found.toward(place, shown)), _numbers(found.weight(place)), lattice(seen.network))
        for shown in toward
    ]
    return [
        Tile(image, _names(seen, np.flatnonzero(true).tolist())),
        *(Tile(image, _measured(seen, row, shown), heat) for shown, heat in zip(toward, heats, strict=True)),
    ]


def _shared(seen: Seen, found: Couplings, place: int, row: int) -> Tile:
    """An image and the couplings of the capsules of its only place."""
    activation = _numbers(found.activation[place, 0, 0])
    active = activation / max(float(activation.max()), 1e-12)
    heat = Heat(_numbers(found.shares[place, 0, 0].T), active, lattice(seen.network))
    return Tile(visible(seen.images([row])[0]), _judged(seen, row), heat)


def _numbers(values: Tensor) -> NDArray[np.float32]:
    return values.cpu().numpy()


def _judged(seen: Seen, row: int) -> str:
    true, predicted = (np.flatnonzero(of[row]).tolist() for of in (seen.split.labels, seen.predicted))
    return _names(seen, true) if seen.right[row] else f"{_names(seen, true)}, not {_names(seen, predicted)}"


def _names(seen: Seen, classes: list[int]) -> str:
    return ", ".join(_name(seen, shown) for shown in classes)


def _name(seen: Seen, shown: int) -> str:
    return drawable(seen.classes[shown], longest=11)


def _length(seen: Seen, row: int, shown: int) -> str:
    return f"{seen.lengths[row, shown]:.2f}"


def _measured(seen: Seen, row: int, shown: int) -> str:
    return f"{_name(seen, shown)} {_length(seen, row, shown)}"
