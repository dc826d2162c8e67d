"""What every model of a comparison may spend, and what it may try: the same for all of them."""

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from capstext.errors import UsageError, did_you_mean

# What belongs to the budget or to the protocol, and so to no model.
RESERVED = {
    "training.epochs": "the budget's: budget.epochs, or epochs of a data set",
    "training.seed": "the comparison's: seeds",
    "data.fold": "the comparison's: folds",
    "data.folds": "the comparison's: folds",
}


@dataclass(frozen=True)
class Budget:
    """What every model may spend: so many epochs, or as many as fit in so many seconds; and trials."""

    epochs: int | None = None
    seconds: float | None = None
    trials: int = 1


def budget_of(dataset: str, entry: dict[str, Any], given: Any) -> Budget:
    """The same for every model; a data set may have its own number of epochs or seconds."""
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"budget: expected settings such as `epochs: 5`, found {given!r:.80}")
    own = {key: entry.pop(key) for key in ("epochs", "seconds") if key in entry}
    shared = {
        key: value for key, value in (given or {}).items() if not own or key not in ("epochs", "seconds")
    }
    values = {key: _number(value) for key, value in (shared | own).items()}
    for key, value in values.items():
        if key not in ("epochs", "seconds", "trials"):
            raise UsageError(
                f"budget: unknown setting {key}; {did_you_mean(str(key), ('epochs', 'seconds', 'trials'))}"
            )
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value < math.inf
            or (key != "seconds" and value != int(value))
        ):
            kind = "a number" if key == "seconds" else "a whole number"
            raise UsageError(f"budget.{key}: expected {kind} over 0, found {value!r}")
    if len({"epochs", "seconds"} & values.keys()) != 1:
        raise UsageError(f"budget of {dataset}: give epochs or seconds, one of them")
    return Budget(
        epochs=int(values["epochs"]) if "epochs" in values else None,
        seconds=values.get("seconds"),
        trials=int(values.get("trials", 1)),
    )


def _number(value: Any) -> Any:
    """YAML reads 1e3 as a string."""
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value


def search_of(shared: Any, own: Any) -> dict[str, list[Any]]:
    """Values to try of each setting: a model's own, or those of all models."""
    given = shared if own is None else own
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"search: expected settings with lists of values, found {given!r:.80}")
    for key, values in (given or {}).items():
        if not isinstance(values, list) or not values or "." not in str(key):
            raise UsageError(f"search: expected section.key: [values], found {key}: {values!r:.80}")
        if owner := RESERVED.get(str(key)):
            raise UsageError(f"search: {key} is {owner}")
        if str(key).startswith(("data.", "model.name")):
            raise UsageError(
                f"search: {key} cannot be searched: all trials are of one model and the same rows"
            )
    return {str(key): values for key, values in (given or {}).items()}


def choices(model: str, search: Mapping[str, Sequence[Any]], trials: int) -> tuple[dict[str, Any], ...]:
    """As many combinations as there are trials, drawn once for all data sets; every model has as many."""
    if trials == 1:
        if search:
            raise UsageError(f"models.{model}: search needs budget.trials over 1")
        return ()
    size = math.prod(map(len, search.values())) if search else 0
    if size < trials:
        raise UsageError(
            f"models.{model}: {size} combinations to search, fewer than budget.trials {trials}; "
            "every model gets the same number of trials"
        )
    combinations = [dict(zip(search, values, strict=True)) for values in itertools.product(*search.values())]
    return tuple(random.Random(0).sample(combinations, trials))
