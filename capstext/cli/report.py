"""`capstext report`: pages with plots, made anew from the code."""

from pathlib import Path
from typing import Annotated

import typer

from capstext.cli import report_inside, report_robustness
from capstext.errors import CapstextError

report_app = typer.Typer(help="Pages with plots, made anew.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(report_app, name="report")
    report_robustness.register(report_app)
    report_inside.register(report_app)


@report_app.callback()
def _pages() -> None:
    """Pages with plots, made anew."""


@report_app.command()
def routing(
    out: Annotated[Path, typer.Option(help="Where routing.md and its plots go.")] = Path("reports"),
) -> None:
    """How couplings settle, what leak and orphan take, how α and iterations matter."""
    try:
        from capstext.routing_report import write
    except ModuleNotFoundError as error:
        raise CapstextError(f"{error.name} is not installed; pip install 'capstext[report]'") from None
    write(out)
    typer.echo(out / "routing.md")
