"""Several processes of one training, started by torchrun."""

import os

import torch
from torch import distributed
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]


def rank() -> int:
    """This process's number; 0 where there is one process only."""
    return int(os.environ.get("RANK", "0"))


def join() -> None:
    """Meet the other processes.

    Every restart meets under a name of its own: what processes of an earlier attempt left in the store
    would make the new ones wait for peers that are gone.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1 or distributed.is_initialized():
        return
    if cuda := torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    hosted_by_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world,
        is_master=rank() == 0 and not hosted_by_torchrun,
    )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    distributed.init_process_group(
        "nccl" if cuda else "gloo",
        store=PrefixStore(f"attempt-{attempt}", store),
        rank=rank(),
        world_size=world,
    )
