"""What every test may use: one torch thread, checked shapes, the command, and small real runs."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

install_import_hook(
    [
        "capstext.routing",
        "capstext.capsules",
        "capstext.models",
        "capstext.embeddings",
        "capstext.augmentation",
    ],
    "beartype.beartype",
)

import pytest
import torch
from answers import Answer

torch.set_num_threads(1)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run `capstext ...` as a shell would, in this process."""

    def run(*arguments: object) -> Answer:
        from capstext.cli import main

        monkeypatch.setattr(sys, "argv", ["capstext", *map(str, arguments)])
        capsys.readouterr()
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        captured = capsys.readouterr()
        return Answer(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def local_data() -> Path:
    """The folder of local data sets, for tests on real data."""
    if "CAPSTEXT_DATA" not in os.environ:
        pytest.skip("CAPSTEXT_DATA is not set: no local data sets")
    return Path(os.environ["CAPSTEXT_DATA"])


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Caches of this test run alone."""
    folder = tmp_path_factory.mktemp("caches")
    before = {name: os.environ.get(name) for name in ("XDG_CACHE_HOME", "HF_DATASETS_CACHE")}
    os.environ["XDG_CACHE_HOME"] = str(folder)
    os.environ["HF_DATASETS_CACHE"] = str(folder / "datasets")
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file of labelled texts that can be learned."""
    good = ["a fine film", "truly great acting", "I loved every minute", "what a wonderful story"]
    bad = ["a dull film", "truly awful acting", "I hated every minute", "what a boring story"]
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    lines = ["text,label"]
    for number in range(15):
        lines += [f"{text} {number},good" for text in good] + [f"{text} {number},bad" for text in bad]
    path.write_text("\n".join(lines) + "\n")
    return path
