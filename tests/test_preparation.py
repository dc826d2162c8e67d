"""From a config to rows and a model: what is decided by the data."""

from pathlib import Path

import pytest

from capstext import config as settings
from capstext import vectors
from capstext.memory import Memory
from capstext.preparation import prepare

SMALL = ["model.filters=8", "model.name=capsule-a"]


def prepared(data: Path, *more: str):  # type: ignore[no-untyped-def]
    return prepare(settings.load(None, overrides=[f"data.name={data}", *SMALL, *more]))


def test_few_rows_make_small_batches_unless_the_size_is_given(reviews: Path) -> None:
    random = "embeddings.mode=random"
    assert prepared(reviews, random).config.training.batch_size == 4
    assert prepared(reviews, random, "training.batch_size=32").config.training.batch_size == 32


def test_vectors_that_know_too_few_of_the_words_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "installed", lambda: "glove-6b-50d")
    rows = [f"{'好看 电影' if number % 2 else '难看 无聊'} {number},{number % 2}" for number in range(40)]
    (tmp_path / "films.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    said: list[str] = []
    overrides = [f"data.name={tmp_path / 'films.csv'}", *SMALL]
    found = prepare(settings.load(None, overrides=overrides), say=said.append)
    assert found.model.embedding.mode == "random"
    assert any("start at random" in message for message in said)


def test_the_same_config_gives_the_same_weights(reviews: Path) -> None:
    first, second = (prepared(reviews, "embeddings.mode=random").model.state_dict() for _ in range(2))
    assert all((first[name] == second[name]).all() for name in first)


@pytest.mark.parametrize("mode", ["random", "non-static"])
def test_what_is_remembered_changes_nothing(mode: str, reviews: Path) -> None:
    """Runs that share data and tokens with earlier ones get the same rows and weights as alone."""
    memory = Memory(most=2)
    overrides = [f"data.name={reviews}", *SMALL, f"embeddings.mode={mode}", "embeddings.vectors=glove-6b-50d"]
    for seed in (0, 1):
        config = settings.load(None, overrides=[*overrides, f"training.seed={seed}"])
        alone, again = prepare(config), prepare(config, memory=memory)
        assert alone.fingerprint() == again.fingerprint()
        weights = again.model.state_dict()
        assert all((value == weights[name]).all() for name, value in alone.model.state_dict().items())
    assert any(key[0] == "rows" for key in memory.made)


def test_memory_keeps_the_last_few_of_each_kind() -> None:
    memory = Memory(most=2)
    made = [memory.get(("square", number), lambda number=number: number**2) for number in (1, 2, 3, 3)]
    assert made == [1, 4, 9, 9]
    assert list(memory.made) == [("square", 2), ("square", 3)]
    assert memory.get(("cube", 2), lambda: 8) == 8
    assert len(memory.made) == 3


@pytest.mark.parametrize("mode", ["static", "non-static", "multichannel"])
def test_word_vectors_are_found_in_every_mode(mode: str, reviews: Path, tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("film 0.1 0.2 0.3\nfine 0.4 0.5 0.6\ndull -0.1 0.0 0.2\n")
    found = prepared(reviews, f"embeddings.mode={mode}", f"embeddings.vectors={file}")
    assert found.model.embedding.dim == (6 if mode == "multichannel" else 3)
