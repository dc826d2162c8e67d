"""`capstext report robustness`: image models under attack, turned and moved."""

from pathlib import Path
from typing import Annotated

import typer

from capstext.cli.progress import Progress
from capstext.errors import CapstextError, UsageError

EXAMPLES = """\b
Examples:
  capstext report robustness runs/capsnet runs/cnn                   which withstands more?
  capstext report robustness runs/caps-* runs/cnn-* --images 300     several seeds of each, fewer images
"""


def register(report_app: typer.Typer) -> None:
    report_app.command(epilog=EXAMPLES)(robustness)


def robustness(
    run: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders; seeds of a model are put together.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the page, its pictures and robustness.json.")] = Path(
        "reports/robustness"
    ),
    data: Annotated[
        str | None, typer.Option(help="Labelled images, or a known name  [default: the data of the runs]")
    ] = None,
    images: Annotated[int, typer.Option(min=1, help="At most so many test images.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Which images, and how they are turned.")] = 0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Nothing but results and errors.")] = False,
) -> None:
    """Accuracy under FGSM and BIM, on images made with other models, and on turned and moved images."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is a file; it names a folder")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise CapstextError(f"{error.name} is not installed; pip install 'capstext[report]'") from None
    from capstext.robustness import side_by_side
    from capstext.robustness.measuring import measure
    from capstext.robustness.report import write
    from capstext.robustness.words import clean_sentence, masking, verdicts

    progress = Progress(quiet=quiet)
    loaded = side_by_side.load(run)
    chosen = side_by_side.chosen_images(loaded, data=data, most=images, seed=seed, say=progress.say)
    progress.say(f"images: {len(chosen.pixels):,}; runs: {len(loaded)}")
    measured = measure(loaded, chosen, seed=seed, count=progress.count)
    page = write(measured, out)
    for sentence in (clean_sentence(measured), *verdicts(measured), *masking(measured)):
        typer.echo(sentence)
    typer.echo(page)
