"""Compiled routing is one graph and gives what eager routing gives, gradients and bf16 autocast included."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def compiled(backend: str) -> str:
    """What the script says in a process without type checks, which do not compile."""
    path = os.pathsep.join([str(HERE), str(HERE.parent), str(HERE.parent.parent)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "compiled.py"), backend]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr[-2000:]


def test_one_graph_equals_eager() -> None:
    assert compiled("aot_eager").startswith("equal")


@pytest.mark.slow
def test_compiled_code_equals_eager() -> None:
    assert compiled("inductor").startswith("equal")
