"""What tests of routings share."""

from typing import Any

import pytest
from torch import Tensor

from capstext.routing import assignment
from capstext.routing.softmax import Softmax


@pytest.fixture
def remember_draws(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The parents kept for each child, 1 or 0, of every softmax that samples."""
    drawn: list[Tensor] = []
    original = assignment.softmax_by_name

    def remembering(*args: Any, **kwargs: Any) -> Softmax:
        softmax = original(*args, **kwargs)
        if softmax.barred is not None and softmax.drawn is not None:
            drawn.append((softmax.barred == 0)[softmax.drawn])
        return softmax

    monkeypatch.setattr(assignment, "softmax_by_name", remembering)
    return drawn
