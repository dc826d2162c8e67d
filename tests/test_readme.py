"""What the README tells people to type works as it stands there."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from answers import Answer

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def indented(start: str, text: str = README) -> list[str]:
    """Lines of the README's code blocks that begin so, without their comments."""
    lines = re.findall(rf"^    ({re.escape(start)}.*)$", text, flags=re.MULTILINE)
    return [line.split("  #")[0].strip() for line in lines]


def test_the_commands_and_the_python_of_the_readme_run(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Answer]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text(reviews.read_text())
    Path("held-out.csv").write_text(reviews.read_text())
    Path("new.txt").write_text("a fine film\nso dull\n")
    Path("configs").symlink_to(ROOT / "configs")
    commands = indented("capstext ", README.split("## Images")[0])
    assert {line.split()[1] for line in commands} >= {"train", "classify", "evaluate", "compare"}
    for line in commands:
        answer = command(*shlex.split(line)[1:])
        assert answer.code == 0, (line, answer.err)
        assert answer.out
    python = [*indented("from capstext"), *indented("Classifier"), *indented("import capstext")]
    python += [*indented("from transformers"), *indented("pipeline")]
    exec("\n".join(python), {})


def test_the_commands_for_images_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Answer]
) -> None:
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    Path("scans").mkdir()
    for name in ("picture.png", "scans/page.jpg"):
        Image.new("L", (8, 8)).save(name)
    Path("configs").symlink_to(ROOT / "configs")
    few = {
        "train": ["--set", "training.epochs=2"],
        "compare": ["--seeds", "1", "--only", "cnn-light"],
        "robustness": ["--images", "20"],
    }
    for line in indented("capstext ", README.split("## Images")[1].split("\n## ")[0]):
        words = shlex.split(line)[1:]
        shorter = [option for word in words for option in few.get(word, [])]
        answer = command(*words, *shorter)
        assert answer.code == 0, (line, answer.err)
        assert answer.out


def test_the_routing_of_the_readme_works_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from capstext import routing
    from capstext.config import parse
    from capstext.models import build_network
    from capstext.routing.squash import length, squash_by_name

    names = {**vars(routing), "Tensor": torch.Tensor, "length": length, "squash_by_name": squash_by_name}
    exec(re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[0], names)
    monkeypatch.setitem(routing.ROUTINGS, "once", names["once"])
    network = build_network(parse({"routing": {"name": "once", "share": 0.5}}), in_dim=4, classes=2)
    assert network(torch.randn(3, 7, 4), torch.ones(3, 7, dtype=torch.bool)).shape == (3, 2)


def test_make_knows_the_two_commands() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in indented("make "):
        assert re.search(rf"^{line.split()[1]}:", makefile, flags=re.MULTILINE)


def test_every_place_that_the_readme_names_exists() -> None:
    for place in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / place).exists(), place
