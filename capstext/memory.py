"""What a process that prepares many runs alike need not make again."""

from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


class Memory:
    """The last few things that were made, for a process that prepares many runs alike."""

    def __init__(self, *, most: int) -> None:
        self.most = most
        self.made: dict[tuple[Any, ...], Any] = {}

    def get(self, key: tuple[Any, ...], make: Callable[[], Made]) -> Made:
        """What was made under the key, or is made now; of each kind, the first of the key, few are kept."""
        if key not in self.made:
            alike = [other for other in self.made if other[0] == key[0]]
            for oldest in alike[: max(0, len(alike) + 1 - self.most)]:
                del self.made[oldest]
            made = make()
            if not self.most:
                return made
            self.made[key] = made
        return self.made[key]
