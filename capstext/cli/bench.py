"""`capstext bench`: speed as a ratio beside the alternative, measured in one run."""

import typer


def register(app: typer.Typer) -> None:
    pass
