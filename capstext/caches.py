"""What was read or computed once and is kept, and how it is known that files have not changed since."""

import hashlib
import os
from pathlib import Path


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "capstext"


def fingerprint(*paths: Path) -> str:
    """A short key for files as they are now: path, size, time of change."""
    described = [
        (os.path.abspath(path), (status := path.stat()).st_size, status.st_mtime_ns) for path in paths
    ]
    return hashlib.sha256(repr(described).encode()).hexdigest()[:20]
