"""`capstext classify`: texts from files, folders or a pipe; one answer a text, in order."""

import sys
from collections.abc import Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from capstext.cli.answers import Answers, Format, Item, default_format, standard_output, writer
from capstext.cli.classify_images import classify_images
from capstext.cli.progress import counted
from capstext.errors import CapstextError, UsageError

if TYPE_CHECKING:
    from capstext.data.reading import Tally

EXAMPLES = """\b
Examples:
  capstext classify runs/reviews new.txt            one text a line
  capstext classify runs/reviews letters/           one text a file
  capstext classify runs/reviews new.txt --explain  the words that decided
  cat new.txt | capstext classify runs/reviews --top 3 | jq .top
  capstext classify runs/reviews mails.csv --text-column body --format csv > answers.csv
  capstext classify runs/topics new.jsonl --threshold 0.3
  capstext classify runs/digits digit.png scans/    a model of images

\b
Fields: id (line number, id column or file name), label, score (a probability), and where
asked for or needed: file, top, words, note (empty, cut, unsure). A multi-label model
gives labels and scores, those that reach the threshold (0.5 unless given).
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(classify)


def classify(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The model: a folder that `capstext train` made.")
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|FOLDER|-",
            help="Texts: .txt (one a line), .csv, .tsv, .jsonl, any of them .gz, a folder (one a file), "
            "or - for stdin, which is also read when nothing is given. For a model of images: .png, .jpg, "
            "or folders of them.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="text on a terminal, jsonl otherwise.", show_default=False),
    ] = None,
    top: Annotated[int | None, typer.Option(help="Also give the K best classes.", metavar="K")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Lowest score of a label, 0 to 1; none that reaches it: no label.", metavar="T"),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Also give the words that decided.")] = False,
    text_column: Annotated[
        str | None, typer.Option(help="Column that holds the text; guessed otherwise.")
    ] = None,
    errors: Annotated[
        Literal["strict", "replace"], typer.Option(help="What to do about bytes that are not UTF-8.")
    ] = "strict",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out bad rows and count them.")] = False,
    quote_formulas: Annotated[
        bool, typer.Option("--quote-formulas", help="In csv and tsv, disarm cells that start with = + - @.")
    ] = False,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where the model runs.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no counts.")] = False,
) -> None:
    """Classify texts, or pictures with a model of images: one row in, one row out, in order."""
    if top is not None and top < 1:
        raise UsageError(f"--top {top}: at least 1")
    if threshold is not None and not 0 <= threshold <= 1:
        raise UsageError(f"--threshold {threshold:g}: outside 0 to 1")
    paths = _inputs(inputs or [])

    from capstext import runs
    from capstext.devices import resolve_device

    loaded = runs.load(run, device=resolve_device(device))
    if loaded.tokenizer is None:
        given = {"--explain": explain, "--text-column": text_column, "--errors": errors != "strict"}
        classify_images(
            loaded,
            paths,
            form=form or default_format(),
            top=top,
            threshold=threshold,
            refused=[name for name, value in given.items() if value],
            skip_bad=skip_bad,
            quote_formulas=quote_formulas,
            quiet=quiet,
        )
        return
    from capstext.classifier import Classifier
    from capstext.data.reading import Tally

    classifier = Classifier(loaded)
    answers = Answers(classifier, top=top, threshold=threshold, several=len(paths) > 1, explain=explain)
    tallies = [Tally() for _ in paths]
    rows = _rows(paths, tallies, text_column, errors, skip_bad, classifier.max_characters)
    output = standard_output()
    write = writer(
        output,
        form or default_format(),
        columns=answers.columns,
        quote_formulas=quote_formulas,
        id_width=_id_width(paths),
        label_width=min(max(map(len, classifier.classes)), 30),
    )
    cut = empty = 0
    with counted(lambda: _expected_rows(paths), unit=" rows", wanted=not quiet) as advance:
        for item, answer in classifier.stream(rows, text=lambda item: item.text, explain=explain):
            write(answers.record(item, answer), item.text)
            cut += answer.cut
            empty += answer.empty
            advance()
    output.flush()
    if not quiet:
        _show_counts(tallies, cut=cut, empty=empty, max_length=classifier.max_length)


def _inputs(given: list[str]) -> list[str]:
    """What to read; a missing file is told before the model is loaded."""
    if not given and sys.stdin.isatty():
        raise UsageError("nothing to classify; give a FILE, a FOLDER or pipe texts in (see --help)")
    for path in given:
        if path != "-" and not Path(path).exists():
            raise CapstextError(f"no such file: {path}")
    return given or ["-"]


def _rows(
    paths: list[str],
    tallies: list["Tally"],
    text_column: str | None,
    errors: Literal["strict", "replace"],
    skip_bad: bool,
    max_characters: int,
) -> Iterator[Item]:
    from capstext.data.reading import read_rows

    for path, tally in zip(paths, tallies, strict=True):
        for row in read_rows(
            path,
            text_column=text_column,
            errors=errors,
            skip_bad=skip_bad,
            max_characters=max_characters,
            tally=tally,
        ):
            finite = not isinstance(row.id, float) or isfinite(row.id)
            yield Item(row.id if finite else str(row.id), row.file, row.text)


def _id_width(paths: list[str]) -> int:
    """Room for file names, which are known beforehand, or for line numbers."""
    from capstext.data.reading import documents_in

    names = [
        len(str(document.relative_to(path)))
        for path in paths
        if Path(path).is_dir()
        for document in documents_in(Path(path))[0]
    ]
    return min(max(names, default=5), 40)


def _expected_rows(paths: list[str]) -> int | None:
    from capstext.data.reading import documents_in

    rows = 0
    for path in map(Path, paths):
        if path.is_dir():
            rows += len(documents_in(path)[0])
        elif path.is_file() and path.suffix != ".gz":
            with open(path, "rb") as file:
                rows += sum(block.count(b"\n") for block in iter(partial(file.read, 1 << 20), b""))
        else:
            return None
    return rows


def _show_counts(tallies: list["Tally"], *, empty: int, cut: int, max_length: int) -> None:
    counts = {
        "empty text, answered with the class prior": empty,
        f"text cut at {max_length} tokens": cut,
        "character replaced": sum(tally.replaced for tally in tallies),
        "bad row skipped": sum(tally.skipped for tally in tallies),
        "file ignored (not text)": sum(tally.ignored for tally in tallies),
    }
    for fault in (fault for tally in tallies for fault in tally.faults):
        print(f"capstext: skipped {fault}", file=sys.stderr)
    for what, count in counts.items():
        if count:
            print(f"capstext: {count:,} × {what}", file=sys.stderr)
