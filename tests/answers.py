"""What a command leaves."""

from typing import NamedTuple


class Answer(NamedTuple):
    """Exit code, results, messages."""

    code: int
    out: str
    err: str
