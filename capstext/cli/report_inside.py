"""`capstext report inside`: what the capsules of an image model draw, and where they look."""

from pathlib import Path
from typing import Annotated

import typer

from capstext.cli.progress import Progress

EXAMPLES = """\b
Examples:
  capstext report inside runs/mnist                                    the test images of its own data
  capstext report inside runs/overlap --out reports/overlap --seed 3   other images, another folder
"""


def register(report_app: typer.Typer) -> None:
    report_app.command(epilog=EXAMPLES)(inside)


def inside(
    run: Annotated[Path, typer.Argument(help="A run folder of a capsule model of images.")],
    out: Annotated[Path, typer.Option(help="Where README.md and its pictures go.")] = Path("reports/inside"),
    data: Annotated[
        str | None, typer.Option(help="Labelled images, or a known name  [default: the data of the run]")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which images  [default: test]")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which images are shown.")] = 0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Nothing but results and errors.")] = False,
) -> None:
    """Reconstructions, what each number of a capsule means, overlapping digits, couplings over the image."""
    from capstext import runs

    loaded = runs.load(run)
    from capstext import preparation
    from capstext.data.image_corpora import ImageCorpus
    from capstext.inside.examples import require_capsules
    from capstext.inside.writing import write

    require_capsules(loaded)  # before minutes are spent on data
    corpus, split, _ = preparation.held_out(
        loaded, data=data, split=split, errors="strict", skip_bad=False, say=Progress(quiet=quiet).say
    )
    assert isinstance(corpus, ImageCorpus)
    typer.echo(write(loaded, corpus, split, out, seed=seed))
