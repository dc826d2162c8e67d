"""Where a model runs."""

import torch

from capstext.errors import UsageError


def resolve_device(name: str) -> str:
    """`auto` is a GPU where there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda: torch finds no GPU here; use cpu or auto")
    if name not in ("cpu", "cuda"):
        raise UsageError(f"unknown device {name}; choose from: auto, cpu, cuda")
    return name
