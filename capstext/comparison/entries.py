"""What a comparison's config lists: names with their settings, checked for kind and for whose they are."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capstext import config as settings
from capstext.comparison.budgets import RESERVED
from capstext.config import Config
from capstext.errors import UsageError, did_you_mean

Settings = dict[str, dict[str, Any]]

SECTIONS = tuple(Config().as_dict())
NAMED = ("data", "model", "routing", "loss")  # sections that a bare name may stand for
SEEDS = 5
MOST = 1000  # seeds or folds
LONGEST = 200  # bytes; a file's name has 255, and reports add to it


def named(key: str, given: Any) -> dict[str, dict[str, Any]]:
    """A list of names, or names with settings."""
    if isinstance(given, list) and not any(isinstance(name, list | dict) for name in given):
        if len(set(map(str, given))) < len(given):
            raise UsageError(f"{key}: a name stands twice")
        given = dict.fromkeys(given)
    if not isinstance(given, Mapping) or not all(
        entry is None or isinstance(entry, Mapping) for entry in given.values()
    ):
        raise UsageError(f"{key}: expected a list of names, or names with settings, found {given!r:.80}")
    for name in map(str, given):
        if not name.strip() or len(file_name(name).encode()) > LONGEST:
            raise UsageError(f"{key}: {name!r:.80} is no name; give one of 1 to {LONGEST} bytes")
    return {str(name): dict(entry or {}) for name, entry in given.items()}


def sections(where: str, given: Any, path: Path) -> Settings:
    """Sections as a training config has them; what is reserved for budget and protocol is refused."""
    found: Settings = {}
    for section, values in _mapping(where, given).items():
        if section not in SECTIONS:
            raise UsageError(f"{where}: unknown section {section}; {did_you_mean(str(section), SECTIONS)}")
        if isinstance(values, str) and section in NAMED:
            values = {"name": values}
        found[section] = _mapping(f"{where}.{section}", values)
        for key in found[section]:
            if owner := RESERVED.get(f"{section}.{key}"):
                raise UsageError(f"{where}: {section}.{key} is {owner}")
    settings.place_paths(found, path)
    return found


def named_data(dataset: str, path: Path) -> Settings:
    """A data set is called by its name, or by its file beside the config."""
    return sections("datasets", {"data": {"name": dataset}}, path)


def counts(dataset: str, entry: dict[str, Any], given: Mapping[str, Any]) -> dict[str, int | None]:
    """Seeds or folds: the data set's own, or those of all."""
    own = {key: entry.pop(key) for key in ("seeds", "folds") if key in entry}
    chosen = own or {key: given[key] for key in ("seeds", "folds") if key in given} or {"seeds": SEEDS}
    if len(chosen) > 1:
        raise UsageError(f"datasets.{dataset}: seeds and folds: give one of them")
    (key, count), *_ = chosen.items()
    fewest = 2 if key == "folds" else 1
    if not isinstance(count, int) or isinstance(count, bool) or not fewest <= count <= MOST:
        raise UsageError(
            f"datasets.{dataset}: {key}: {count!r} is no number of {key}; give {fewest} to {MOST}"
        )
    return {"seeds": None, "folds": None} | {key: count}


def file_name(label: str) -> str:
    """A label as the name of a folder or file."""
    return re.sub(r"[^\w.+-]+", "-", label).strip("-.") or "-"


def _mapping(where: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: expected settings with their values, found {given!r:.80}")
    return dict(given)
