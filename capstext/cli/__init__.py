"""The command line: one file a command. Results go to stdout, everything else to stderr."""

import logging
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from capstext.cli import bench, classify, compare, evaluate, report, train
from capstext.cli import data as data
from capstext.cli.answers import printable
from capstext.errors import CapstextError
from capstext.version import VERSION

app = typer.Typer(
    name="capstext",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (train, evaluate, classify, compare, data, bench, report):
    command.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"capstext {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show what the libraries log, and where an error came from."),
    ] = False,
) -> None:
    """Text classification with capsule networks.

    \b
    capstext train --data reviews.csv --out runs/reviews    from your own texts to a model
    capstext classify runs/reviews new.txt                  one class a line
    capstext evaluate runs/reviews --data held-out.csv      how good it is
    """
    if verbose:
        logging.basicConfig(level=logging.INFO)


def main() -> None:
    """Run the command; a mistake of the user's is one line and an exit code, never a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except CapstextError as error:
        logging.info("where it came from:", exc_info=True)
        _end(f"capstext: {printable(str(error))}", error.exit_code)
    except KeyboardInterrupt:
        _end("capstext: interrupted", 130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _end(f"capstext: {where}{error.strerror or error}", 1)


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _end(message: str, code: int) -> None:
    print(message, file=sys.stderr)
    sys.exit(code)
