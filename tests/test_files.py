"""Files appear whole or not at all."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from capstext import files
from capstext.errors import CapstextError


def test_a_full_disk_names_the_file_and_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.json"
    files.write_json(path, {"accuracy": 0.5})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CapstextError, match=r"metrics\.json: cannot be written: No space left on device"):
        files.write_json(path, {"accuracy": 0.6})
    assert path.read_text() == '{\n  "accuracy": 0.5\n}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_that_takes_no_file_is_named_and_not_its_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "write_bytes", read_only)
    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(CapstextError, match=r"metrics\.json: cannot be written: Read-only file system"):
        files.write_json(tmp_path / "metrics.json", {})


def test_a_lock_that_was_removed_as_it_was_opened_locks_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or two would be alone: one with the old lock, one with a new one."""
    taken = fcntl.flock

    def late(lock: object, how: int) -> None:
        (tmp_path / files.LOCK).unlink()
        taken(lock, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(CapstextError, match="another training"), files.alone_in(tmp_path, doing="training"):
        pytest.fail("alone with a lock that nobody sees")
