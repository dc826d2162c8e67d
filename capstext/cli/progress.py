"""Progress on stderr: a bar with the time left on a terminal, a line an epoch elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from capstext.cli.answers import printable


@contextmanager
def counted(total: Callable[[], int | None], *, unit: str, wanted: bool) -> Iterator[Callable[[], object]]:
    """A bar with rows a second and the time left, where people see it and it stays out of the answers."""
    if not wanted or not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda: None
        return
    from tqdm import tqdm

    with tqdm(total=total(), unit=unit, dynamic_ncols=True) as bar:
        yield bar.update


class Progress:
    """What a training tells while it runs."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.bar: Any = None
        self.loss: float | None = None

    def say(self, message: str) -> None:
        if not self.quiet:
            self._write(message)

    def warn(self, message: str) -> None:
        self._write(f"capstext: {message}")

    def count(self, done: int, of: int) -> None:
        """So many of something are done, before the first step."""
        if self.quiet:
            return
        if self.bar is None:
            self.bar = self._new_bar(of, unit="")
        self.bar.update(done - self.bar.n)
        if done >= of:
            self.close()

    def report(self, step: int, steps: int, facts: dict[str, float]) -> None:
        """One step is done; `facts` may hold the loss, or the scores of an epoch."""
        if self.quiet:
            return
        self.loss = facts.get("loss", self.loss)
        if self.bar is None:
            self.bar = self._new_bar(steps, initial=step, unit="step", desc="training")
        self.bar.update(step - self.bar.n)
        if "loss" in facts:
            self.bar.set_postfix(loss=f"{facts['loss']:.3f}")
        if "score" in facts:
            loss = "" if self.loss is None else f", loss {self.loss:.3f}"
            self._write(f"epoch {facts['epoch']:g}: validation {100 * facts['score']:.2f} %{loss}")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def _new_bar(self, total: int, **options: Any) -> Any:
        from tqdm import tqdm

        return tqdm(total=total, disable=not sys.stderr.isatty(), **options)

    def _write(self, message: str) -> None:
        message = printable(message)
        if self.bar is not None and not self.bar.disable:
            self.bar.write(message, file=sys.stderr)
        else:
            typer.echo(message, err=True)
