"""Looking inside: what is drawn is what the capsules say, couplings are shares, and the page shows it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answers import Answer
from small_runs import save_small_run

from capstext import models, runs
from capstext.config import parse
from capstext.data.image_corpora import ImageCorpus, in_classes
from capstext.data.images import load_images
from capstext.data.multi_mnist import MultiMnist
from capstext.embeddings import Pixels
from capstext.inside import page, sections
from capstext.inside.couplings import Couplings, couplings, lattice, leaks
from capstext.inside.drawings import STEPS, drawn, moved, poses
from capstext.inside.examples import Seen, see
from capstext.inside.pictures import in_two_colours
from capstext.inside.writing import write
from capstext.routing.squash import squash_by_name

DIM = 5
CAPSNET = {"name": "capsnet", "filters": 8, "window": 3, "capsules": 4, "class_dim": DIM, "decoder": [16]}
MATRICES = {
    "name": "matrix-capsules",
    "filters": 8,
    "primary_capsules": 2,
    "capsules": [3, 3],
    "kernel": 3,
    "stride": 1,
    "strides": [1, 1],
}


def run_of(folder: Path, model: dict[str, Any], *, corpus: ImageCorpus, routing: Any = "dynamic") -> runs.Run:
    """A run with random weights, larger than at the start of a training, so that images differ."""
    config = parse({"model": model, "routing": routing, "data": {"name": "digits"}})
    torch.manual_seed(0)
    built = models.build_model(
        config, embedding=Pixels(**corpus.shape._asdict()), classes=len(corpus.classes)
    )
    for parameter in built.parameters():
        parameter.data.mul_(2.0)
    runs.save(
        folder,
        model=built,
        tokenizer=None,
        config=config,
        classes=corpus.classes,
        multi_label=corpus.multi_label,
        metrics={},
        card="# a small model\n",
    )
    return runs.load(folder)


@pytest.fixture(scope="module")
def digits() -> ImageCorpus:
    return load_images("digits")


@pytest.fixture(scope="module")
def pairs(digits: ImageCorpus) -> ImageCorpus:
    """Overlapping digits of 12 x 12 pixels."""
    made = MultiMnist(digits=digits.split("test"), seed=0, pairs=1, most=2).first(200)
    return ImageCorpus("pairs", "made", digits.classes, {"test": made}, multi_label=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, digits: ImageCorpus) -> runs.Run:
    return run_of(tmp_path_factory.mktemp("inside") / "run", CAPSNET, corpus=digits)


@pytest.fixture(scope="module")
def seen(run: runs.Run, digits: ImageCorpus) -> Seen:
    return see(run, digits.split("test"))


@pytest.fixture(scope="module")
def seen_pairs(tmp_path_factory: pytest.TempPathFactory, pairs: ImageCorpus) -> Seen:
    folder = tmp_path_factory.mktemp("inside") / "pairs"
    return see(run_of(folder, CAPSNET, corpus=pairs), pairs.split("test"))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pictures are quicker."""
    monkeypatch.setattr(page, "EXAMPLES", 2)
    monkeypatch.setattr(sections, "MOVED", 1)


def test_moving_a_number_by_nothing_is_the_plain_drawing(seen: Seen) -> None:
    images = moved(seen, 3, 7)
    assert images.shape == (DIM, 11, 1, 8, 8)
    for plain in images[:, STEPS.index(0)]:
        torch.testing.assert_close(plain, drawn(seen, [3], [7])[0])
    assert not torch.equal(images[0, 0], images[0, -1])


def test_one_number_of_one_capsule_is_moved(seen: Seen) -> None:
    assert seen.decoder is not None
    alone = torch.zeros(1, 10, DIM)
    alone[0, 7] = poses(seen, [3])[0, 7]
    alone[0, 7, 2] += 0.15
    expected = seen.decoder(alone, torch.ones(1, 10, dtype=torch.bool))[0]
    torch.testing.assert_close(moved(seen, 3, 7)[2, STEPS.index(0.15)], expected)


def test_a_drawing_is_made_from_one_capsule_alone(seen: Seen) -> None:
    assert seen.decoder is not None
    alone = torch.zeros(2, 10, DIM)
    alone[0, 1], alone[1, 9] = poses(seen, [4, 5])[[0, 1], [1, 9]]
    torch.testing.assert_close(drawn(seen, [4, 5], [1, 9]), seen.decoder(alone, alone.any(-1)))


def test_right_images_are_right_and_wrong_ones_wrong(seen: Seen) -> None:
    truth = seen.split.labels.argmax(axis=1)
    guess = seen.lengths.argmax(axis=1)
    assert 0 < seen.right.sum() < len(truth)
    for row in seen.some(seen.right, most=8, seed=0):
        assert guess[row] == truth[row]
    for row in seen.some(~seen.right, most=8, seed=0):
        assert guess[row] != truth[row]


def test_a_pair_is_right_when_its_two_classes_are_the_most_active(seen_pairs: Seen) -> None:
    assert 0 < seen_pairs.right.sum() < 200
    for row, right in enumerate(seen_pairs.right):
        active = set(np.argsort(seen_pairs.lengths[row])[-2:].tolist())
        assert right == (active == set(np.flatnonzero(seen_pairs.split.labels[row]).tolist()))


def test_examples_are_of_many_classes_and_the_same_for_a_seed(seen: Seen) -> None:
    rows = seen.some(~seen.right, most=8, seed=0)
    assert rows == seen.some(~seen.right, most=8, seed=0) != seen.some(~seen.right, most=8, seed=1)
    assert len(set(seen.split.labels[rows].argmax(axis=1))) == 8
    only = np.arange(len(seen.right)) == 5
    assert seen.some(only, most=8, seed=0) == [5]
    assert seen.some(only & ~only, most=8, seed=0) == []


@pytest.mark.parametrize(
    ("model", "routing", "whole"),
    [
        (CAPSNET, {"name": "dynamic", "softmax": "plain"}, True),
        (CAPSNET, {"name": "dynamic", "softmax": "leaky"}, False),
        ({**CAPSNET, "weights": "shared"}, {"name": "k-means", "softmax": "plain"}, True),
        (MATRICES, {"name": "em", "softmax": "plain", "floor": 1.0}, True),
        (MATRICES, {"name": "em", "softmax": "leaky", "floor": 1.0}, False),
    ],
    ids=["dynamic", "leaky", "shared", "matrices", "leaky matrices"],
)
def test_couplings_of_a_capsule_are_shares_of_it(
    tmp_path: Path, digits: ImageCorpus, model: dict[str, Any], routing: Any, whole: bool
) -> None:
    looked = see(run_of(tmp_path / "run", model, corpus=digits, routing=routing), digits.split("test"))
    found = couplings(looked, [0, 1, 2])
    assert found.shares.shape == (*found.activation.shape, 10)
    assert (found.shares >= 0).all()
    total = found.shares.sum(dim=-1)
    assert leaks(looked.network) != whole
    if whole:
        torch.testing.assert_close(total, torch.ones_like(total))
    else:
        assert (total <= 1).all()
        assert total.mean() < 0.999
    places = torch.stack([found.toward(1, shown) for shown in range(10)]).sum(dim=0)
    assert places.shape == found.activation.shape[1:3]
    assert (places <= 1 + 1e-5).all()


def test_the_couplings_are_those_that_make_the_class_capsules(seen: Seen) -> None:
    with torch.no_grad():
        voters = seen.network.voters(seen.images([0, 1])).poses.flatten(1, 3)
        votes = torch.einsum("bid,ijde->bije", voters, seen.network.classes.route.weights)  # type: ignore
        shares = couplings(seen, [0, 1]).shares.flatten(1, 3)
        made = squash_by_name("sabour")((shares.unsqueeze(-1) * votes).sum(dim=1))
    torch.testing.assert_close(made, poses(seen, [0, 1]), atol=1e-5, rtol=1e-4)


def test_active_capsules_count_for_more() -> None:
    shares, activation = torch.zeros(1, 1, 2, 2, 3), torch.tensor([[[[0.9, 0.3], [0.0, 0.0]]]])
    shares[..., 0, 2], shares[..., 1, 2] = 1.0, 0.5
    found = Couplings(shares, activation)
    torch.testing.assert_close(found.toward(0, 2), torch.tensor([[0.875, 0.0]]))
    torch.testing.assert_close(found.weight(0), torch.tensor([[1.0, 0.0]]))


@pytest.mark.parametrize(
    "model", [CAPSNET, {**MATRICES, "strides": [2, 1], "kernel": 5}], ids=lambda model: model["name"]
)
def test_a_place_lies_in_the_middle_of_what_it_sees(
    tmp_path: Path, pairs: ImageCorpus, model: dict[str, Any]
) -> None:
    routing = "em" if model is not CAPSNET else "dynamic"
    network = run_of(tmp_path / "run", model, corpus=pairs, routing=routing).model.network
    start, step, field = lattice(network)
    pixels = torch.rand(1, 1, 12, 12, requires_grad=True)
    voters = network.voters(pixels).poses
    for place in (0, voters.shape[1] - 1):
        (slope,) = torch.autograd.grad(voters[0, place, 0].square().sum(), pixels, retain_graph=True)
        rows = slope[0, 0].abs().sum(dim=1).nonzero()
        columns = slope[0, 0].abs().sum(dim=0).nonzero()
        assert rows.max() - rows.min() + 1 == field == columns.max() + 1
        assert (rows.max() + rows.min()) / 2 == start + place * step


def test_two_images_have_two_colours_and_are_light_where_both_are() -> None:
    first, second, below = torch.zeros(3, 1, 1, 4).unbind()
    first[..., :2], second[..., 1:3], below[..., 3] = 1.0, 1.0, 1.0
    orange, both, blue, grey = in_two_colours(first, second, below=below)[0]
    assert orange[0] > 2 * orange[1] > orange[2]
    assert blue[2] > blue[1] > blue[0]
    assert both.min() > 0.6
    assert 0 < grey[0] == grey[1] == grey[2] < 0.5


def shown_on(path: Path) -> set[str]:
    """The pictures of a page; there are no others beside it."""
    found = set(re.findall(r"!\[[^\]]*\]\(([^)]+)\)", path.read_text()))
    assert found == {file.name for file in path.parent.glob("*.png")}
    return found


@pytest.mark.usefixtures("few")
def test_the_page_shows_drawings_moves_and_couplings(
    run: runs.Run, seen: Seen, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    answer = command("report", "inside", run.folder, "--out", tmp_path / "a")
    assert answer.code == 0, answer.err
    assert answer.out.strip() == str(tmp_path / "a" / "README.md")
    names = (
        "reconstructions-right",
        "reconstructions-wrong",
        "dimensions-1",
        "couplings-right",
        "couplings-wrong",
    )
    assert shown_on(tmp_path / "a" / "README.md") == {f"{name}.png" for name in names}
    text = (tmp_path / "a" / "README.md").read_text()
    assert f"{seen.right.sum()} of 359 images" in text
    assert f"{run.folder}, capsnet with dynamic routing" in text

    command("report", "inside", run.folder, "--out", tmp_path / "b", "--seed", "0")
    command("report", "inside", run.folder, "--out", tmp_path / "c", "--seed", "1")
    for name in names:
        first, again, other = ((tmp_path / folder / f"{name}.png").read_bytes() for folder in "abc")
        assert first == again != other


@pytest.mark.usefixtures("few")
def test_overlapping_digits_are_drawn_apart(seen_pairs: Seen, pairs: ImageCorpus, tmp_path: Path) -> None:
    for row in range(20):
        (one, first), (other, second) = seen_pairs.parts(row)
        assert set(np.flatnonzero(seen_pairs.split.labels[row])) == {one, other}
        torch.testing.assert_close((first + second).clamp(max=1), seen_pairs.images([row])[0])
    written = write(run_of(tmp_path / "run", CAPSNET, corpus=pairs), pairs, "test", tmp_path / "out")
    shown = shown_on(written)
    assert {"overlaps-right.png", "overlaps-wrong.png", "couplings-wrong.png"} <= shown
    assert not any(name.startswith("reconstructions") for name in shown)


def test_images_of_other_data_keep_their_parts(pairs: ImageCorpus) -> None:
    turned = in_classes(pairs, pairs.classes[::-1]).split("test")
    assert turned.parts is not None
    np.testing.assert_array_equal(turned.parts.labels.any(axis=1), turned.labels)
    np.testing.assert_array_equal(turned.labels[:, ::-1], pairs.split("test").labels)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("model", "routing"),
    [({**CAPSNET, "decoder": None}, "dynamic"), (MATRICES, {"name": "em", "floor": 1.0})],
    ids=["no decoder", "matrices"],
)
def test_a_model_that_cannot_draw_shows_its_couplings(
    tmp_path: Path, digits: ImageCorpus, model: dict[str, Any], routing: Any
) -> None:
    written = write(
        run_of(tmp_path / "run", model, corpus=digits, routing=routing), digits, "test", tmp_path / "out"
    )
    assert shown_on(written) == {"couplings-right.png", "couplings-wrong.png"}
    assert "no decoder" in written.read_text()


@pytest.mark.usefixtures("few")
def test_capsules_of_one_place_show_their_shares(tmp_path: Path, digits: ImageCorpus) -> None:
    light = {"name": "capsnet-light", "filters": [8, 8], "kernels": [3, 3], "strides": [1, 2], "window": 4}
    written = write(run_of(tmp_path / "run", light, corpus=digits), digits, "test", tmp_path / "out")
    assert "1 x 1 places" in written.read_text()
    assert "couplings-wrong.png" in shown_on(written)


@pytest.mark.usefixtures("few")
def test_without_wrong_images_the_page_says_so(run: runs.Run, seen: Seen, tmp_path: Path) -> None:
    right = seen.split.select(np.flatnonzero(seen.right))
    corpus = ImageCorpus("easy", "made", seen.classes, {"test": right})
    written = write(run, corpus, "test", tmp_path / "out")
    assert not any("wrong" in name for name in shown_on(written))
    assert f"None of these {len(right)} images is wrong" in written.read_text()


@pytest.mark.parametrize("kind", ["cnn", "texts"])
def test_other_models_are_refused_in_one_line(
    kind: str, tmp_path: Path, digits: ImageCorpus, command: Callable[..., Answer]
) -> None:
    if kind == "cnn":
        run_of(tmp_path / "run", {"name": "cnn-light"}, corpus=digits)
    else:
        save_small_run(tmp_path / "run")
    answer = command("report", "inside", tmp_path / "run", "--out", tmp_path / "out")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert ("cnn-light has no capsules" if kind == "cnn" else "reads texts") in answer.err
    assert not (tmp_path / "out").exists()
