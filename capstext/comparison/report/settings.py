"""The settings behind a row of results: what all its runs share, without what names a machine or one run."""

from collections.abc import Mapping, Sequence
from typing import Any

from capstext.comparison.records import Record

OF_ONE_RUN = ("training.seed", "data.fold")


def shared(records: Sequence[Record]) -> dict[str, Any]:
    """`section.key` and value of every setting that is the same in all runs."""
    return common([_flat(record.config) for record in records])


def common(flat: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What stands in every one of them with the same value."""
    first, *others = flat
    return {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in others)
    }


def varied(records: Sequence[Record]) -> list[str]:
    """The settings that are not the same in all runs."""
    keys = {key: None for record in records for key in _flat(record.config)}
    return [key for key in keys if key not in shared(records)]


def nested(flat: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Sections again, as a config file has them."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = value
    return sections


def trials(records: Sequence[Record]) -> int | None:
    """How many settings were tried before these were chosen; none where nothing was searched."""
    return max((len(record.search["tried"]) for record in records if record.search), default=None)


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    flat = {}
    for section, values in config.items():
        for key, value in values.items() if isinstance(values, Mapping) else (("", values),):
            flat[f"{section}.{key}".rstrip(".")] = _without_folder(value)
    return {key: value for key, value in flat.items() if key not in OF_ONE_RUN}


def _without_folder(value: Any) -> Any:
    """A file by its name alone; a hub id, which has one slash inside, stays."""
    if not isinstance(value, str) or "/" not in value:
        return value
    hub_id = value.count("/") == 1 and value[0] not in "/.~" and not value.endswith("/")
    return value if hub_id else value.rstrip("/").rpartition("/")[2]
