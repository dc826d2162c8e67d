"""What `capstext classify` does with a model of images: pictures from files and folders, one answer each."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from capstext.cli.answers import Answers, Format, Item, standard_output, writer
from capstext.cli.progress import counted
from capstext.errors import CapstextError, UsageError

if TYPE_CHECKING:
    from capstext.runs import Run


def classify_images(
    run: "Run",
    paths: Sequence[str],
    *,
    form: Format,
    top: int | None,
    threshold: float | None,
    refused: Sequence[str],
    skip_bad: bool,
    quote_formulas: bool,
    quiet: bool,
) -> None:
    """Answer every picture in order; one that cannot be read ends it, or is skipped and counted."""
    if refused:
        raise UsageError(f"{refused[0]}: is for texts, and {run.folder} is a model of images")
    from capstext.image_classifier import ImageClassifier

    classifier = ImageClassifier(run)
    pictures, ignored = _pictures(paths)
    answers = Answers(classifier, top=top, threshold=threshold, several=len(paths) > 1, explain=False)
    output = standard_output()
    write = writer(
        output,
        form,
        columns=answers.columns,
        quote_formulas=quote_formulas,
        id_width=min(max(len(str(item.id)) for item in pictures), 40),
        label_width=min(max(map(len, classifier.classes)), 30),
    )
    skipped: list[str] = []
    with counted(lambda: len(pictures), unit=" images", wanted=not quiet) as advance:
        for item, answer in classifier.stream(
            pictures, image=lambda item: item.text, skipped=skipped if skip_bad else None
        ):
            write(answers.record(item, answer), "")
            advance()
    output.flush()
    if not quiet:
        told = [f"skipped {fault}" for fault in skipped]
        told += [f"{len(skipped):,} × bad image skipped"] if skipped else []
        told += [f"{ignored:,} × file ignored (no PNG or JPEG)"] if ignored else []
        for line in (*told, *classifier.conversions.notes()):
            print(f"capstext: {line}", file=sys.stderr)


def _pictures(paths: Sequence[str]) -> tuple[list[Item], int]:
    """An item for each picture, its path in the place of a text, and how many other files there are."""
    from capstext.data.image_files import images_in

    found: list[Item] = []
    ignored = 0
    for given in paths:
        path = Path(given)
        if given == "-":
            raise UsageError("images are not read from a pipe; give PNG or JPEG files, or folders of them")
        if not path.is_dir():
            found.append(Item(path.name, given, given))
            continue
        inside, others = images_in(path)
        ignored += others
        if not inside:
            raise CapstextError(f"{given}: no PNG or JPEG files in this folder ({others} other files)")
        found += [Item(str(file.relative_to(path)), str(file), str(file)) for file in inside]
    return found, ignored
