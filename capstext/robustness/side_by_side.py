"""Run folders go in; image runs that can be put side by side come out, with test images for all of them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from capstext import preparation, runs
from capstext.devices import resolve_device
from capstext.errors import CapstextError, UsageError
from capstext.models.image import ImageModel
from capstext.runs import Run


@dataclass(frozen=True)
class Images:
    """The test images, the same for all runs."""

    data: str
    split: str
    pixels: Tensor  # [N, C, H, W], 0 to 1
    targets: Tensor  # [N, classes]

    @property
    def labels(self) -> Tensor:
        return self.targets.argmax(dim=-1)


def load(folders: Sequence[Path]) -> list[Run]:
    """Runs that can be put side by side: of images, one class each, of the same classes and shape."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UsageError("a run folder is given twice")
    loaded: list[Run] = []
    for folder in folders:
        run = runs.load(folder, device=resolve_device("auto"))
        if not isinstance(run.model, ImageModel):
            raise UsageError(f"{folder}: its model reads texts; the attacks are on images")
        if run.multi_label:
            raise UsageError(f"{folder}: its images have several classes each; the attacks are for one")
        first = loaded[0] if loaded else run
        if run.classes != first.classes:
            raise UsageError(f"{folder}: its classes are not those of {first.folder}")
        if _shape(run) != _shape(first):
            raise UsageError(f"{folder}: reads images of {_shape(run)}, {first.folder} of {_shape(first)}")
        loaded.append(run)
    return loaded


def chosen_images(
    loaded: Sequence[Run], *, data: str | None, most: int, seed: int, say: Callable[[str], None]
) -> Images:
    """Some of the test images of the runs' own data, or of other data: by the seed, the same for all."""
    first = loaded[0]
    for run in loaded:
        if data is None and run.config.data != first.config.data:
            raise UsageError(
                f"{run.folder}: was trained on other data than {first.folder}; name test images with --data"
            )
    corpus, split, rows = preparation.held_out(
        first, data=data, split=None, say=say, errors="strict", skip_bad=False
    )
    places = np.sort(np.random.default_rng(seed).permutation(len(rows))[:most]).tolist()
    targets = rows.targets(places)
    if bool((targets.sum(dim=-1) != 1).any()):
        raise CapstextError(f"{corpus.name}, {split}: has images without a class or with several")
    device = next(first.model.parameters()).device
    pixels = rows.inputs(places)["pixels"].to(device).float() / 255
    return Images(corpus.name, split, pixels, targets.to(device))


def grouped(loaded: Sequence[Run]) -> dict[str, tuple[int, ...]]:
    """Runs that differ in nothing but the seed are one model; named by what tells it from the others."""
    settings = [_flat(run.config.as_dict()) for run in loaded]
    for one in settings:
        one.pop("training.seed")
    keys = [json.dumps(one, sort_keys=True) for one in settings]
    groups = {}
    for key in dict.fromkeys(keys):
        members = tuple(place for place, other in enumerate(keys) if other == key)
        mine = settings[members[0]]
        alike = [other for other in settings if other["model.name"] == mine["model.name"]]
        own = [
            f"{name} {_shown(value)}"
            for name, value in mine.items()
            if any(other.get(name) != value for other in alike)
        ]
        groups[", ".join([str(mine["model.name"]), *own])] = members
    return groups


def _shape(run: Run) -> Any:
    assert isinstance(run.model, ImageModel)
    return run.model.embedding.shape


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`section.key` and its value; a bare name stands for itself."""
    found: dict[str, Any] = {}
    for section, values in settings.items():
        given = values if isinstance(values, Mapping) else {"name": values}
        found |= {f"{section}.{key}": value for key, value in given.items()}
    return found


def _shown(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
