"""Files appear whole or not at all."""

import errno
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
