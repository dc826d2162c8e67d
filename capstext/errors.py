"""What a user can mend: the command line shows the message and exits with the code."""

from collections.abc import Iterable
from difflib import get_close_matches


class CapstextError(Exception):
    """Data or a run failed."""

    exit_code = 1


class UsageError(CapstextError):
    """A command, a setting or a name is wrong."""

    exit_code = 2


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """The second half of an error about an unknown name: the nearest choice, or all of them."""
    choices = sorted(choices)
    near = get_close_matches(name, choices, n=1)
    return f"did you mean {near[0]}?" if near else f"choose from: {', '.join(choices)}"
