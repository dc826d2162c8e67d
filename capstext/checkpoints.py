"""Checkpoints of a training: written whole, checksummed, without pickle; the newest good one is found again.

Weights, optimiser moments and generator states are safetensors files, everything else is JSON.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from capstext.errors import CapstextError
from capstext.files import sha256, sync_folder, write_json

WEIGHTS = "model.safetensors"
OPTIMISER = "optimiser.safetensors"
SCHEDULE = "schedule.json"
CHECKSUMS = "checksums.json"
KEPT = 2


def random_file(rank: int) -> str:
    return f"random-{rank}.safetensors"


def folder_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def draft_of(folder: Path, step: int) -> Path:
    """Where a checkpoint is written before it counts."""
    draft = folder / f".step-{step:08d}.draft"
    draft.mkdir(parents=True, exist_ok=True)
    return draft


def publish(draft: Path, final: Path) -> None:
    """Give a complete draft its checksums and its name; from then on it counts."""
    write_json(draft / CHECKSUMS, {path.name: sha256(path) for path in sorted(draft.iterdir())})
    for path in draft.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    if final.exists():
        shutil.rmtree(final)
    draft.rename(final)
    sync_folder(final.parent)


def tidy(folder: Path, *, best: Path | None) -> None:
    """Keep the newest checkpoints and the best one; forget drafts that a stopped run left."""
    steps = sorted(folder.glob("step-*"))
    for path in [*steps[:-KEPT], *folder.glob(".step-*.draft")]:
        if path != best:
            shutil.rmtree(path)


def newest_good(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint whose files are all as they were written, and why newer ones were passed over."""
    complaints: list[str] = []
    for path in sorted(folder.glob("step-*"), reverse=True):
        fault = _fault(path)
        if fault is None:
            return path, complaints
        complaints.append(fault)
    return None, complaints


def _fault(checkpoint: Path) -> str | None:
    try:
        sums = json.loads((checkpoint / CHECKSUMS).read_text())
    except (OSError, ValueError):
        return f"{checkpoint / CHECKSUMS}: missing or not readable"
    for name, expected in sums.items():
        path = checkpoint / name
        if not path.is_file():
            return f"{path}: missing"
        if sha256(path) != expected:
            return f"{path}: not as it was written"
    return None


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(plain, path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise CapstextError(f"{path}: cannot be written: {error}") from None


def load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CapstextError(f"{path}: cannot be read: {error}") from None


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments of every parameter, named by its place in the optimiser."""
    state = optimiser.state_dict()["state"]
    return {f"{place}/{name}": value for place, moments in state.items() for name, value in moments.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the moments back; learning rates come back with the schedule."""
    moments: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        place, _, name = key.partition("/")
        moments.setdefault(int(place), {})[name] = value
    optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})


def random_tensors() -> dict[str, Tensor]:
    """The states of the generators that dropout and sampled routing draw from."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random(states: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
