"""Files that are written whole or not at all: a temporary neighbour, fsync, rename."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from capstext.errors import CapstextError

LOCK = ".lock"
TEMPORARY = ".*.tmp"  # what the temporary neighbours are named like


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file, then put it in the place of `path` in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise CapstextError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):  # a file system that takes no file loses none either
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda temporary: _write_bytes(temporary, text.encode()))


def write_json(path: Path, value: Any) -> None:
    """JSON as everybody can read it: NaN is refused rather than written."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_unwritable(folder: Path) -> None:
    """A folder that cannot be made, or takes no files, is told before there is something to write."""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not nearest.is_dir():
        raise CapstextError(f"{nearest}: is a file, and {folder} is to be a folder; choose another --out")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise CapstextError(f"{nearest}: takes no files: no permission; choose another --out")


@contextmanager
def alone_in(folder: Path, *, doing: str) -> Iterator[None]:
    """Refuse a second process that does the same in the folder."""
    path = folder / LOCK
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(lock.fileno()), os.stat(path)):
                raise FileExistsError  # this lock was removed as it was opened; a third may have another
        except OSError:
            raise CapstextError(
                f"{folder}: another {doing} is writing there; wait for it, or choose another --out"
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
