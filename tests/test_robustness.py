"""Attacks on images: what they may change, what they reach, and what is told of them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from answers import Answer
from small_runs import save_small_run

from capstext import models, runs
from capstext.config import parse
from capstext.embeddings import Pixels
from capstext.errors import UsageError
from capstext.losses import CrossEntropy, Margin
from capstext.models.image import ImageModel
from capstext.robustness import attacks, measuring, side_by_side, words
from capstext.robustness.attacks import bim, fgsm, gradients, log_odds
from capstext.robustness.measuring import EPSILONS, Measured, Record, measure

CLASSES = tuple("0123456789")
SMALL = {
    "filters": [8, 8, 8, 8],
    "kernels": [3, 3, 3, 3],
    "strides": [1, 1, 2, 1],
}
NETWORKS = {
    "capsnet-light": {"model": {"name": "capsnet-light", **SMALL}, "loss": "margin"},
    "cnn-light": {"model": {"name": "cnn-light", **SMALL}, "loss": "cross-entropy"},
    "matrix-capsules": {
        "model": {
            "name": "matrix-capsules",
            "filters": 4,
            "kernel": 3,
            "stride": 1,
            "primary_capsules": 2,
            "capsules": [2],
            "windows": [3],
            "strides": [1],
        },
        "routing": "em",
        "loss": "spread",
    },
}
CROSS_ENTROPY = CrossEntropy(multi_label=False)


def small_model(name: str = "capsnet-light", *, seed: int = 0, **pixels: int) -> ImageModel:
    config = parse({**NETWORKS[name], "data": {"name": "digits"}})
    torch.manual_seed(seed)
    embedding = Pixels(channels=1, height=8, width=8, **pixels)
    model = models.build_model(config, embedding=embedding, classes=len(CLASSES))
    assert isinstance(model, ImageModel)
    return model.eval()


def save_image_run(folder: Path, name: str = "capsnet-light", *, seed: int = 0, classes: int = 10) -> Path:
    config = parse({**NETWORKS[name], "data": {"name": "digits"}, "training": {"seed": seed}})
    torch.manual_seed(seed)
    embedding = Pixels(channels=1, height=8, width=8)
    model = models.build_model(config, embedding=embedding, classes=classes)
    runs.save(
        folder,
        model=model,
        tokenizer=None,
        config=config,
        classes=CLASSES[:classes],
        multi_label=False,
        metrics={},
        card="# small\n",
    )
    return folder


def some_images(count: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """Images with white and black pixels among them, and their targets."""
    generator = torch.Generator().manual_seed(3)
    images = torch.randint(-64, 320, (count, 1, 8, 8), generator=generator).clamp(0, 255).float() / 255
    return images, torch.eye(10)[torch.arange(count) % 10]


def aimed(model: ImageModel, targets: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda images: gradients(model, CROSS_ENTROPY, images, targets)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_reaches_the_pixels_of_every_image(name: str) -> None:
    images, targets = some_images()
    found = gradients(small_model(name), CROSS_ENTROPY, images, targets)
    assert found.shape == images.shape
    assert (found != 0).flatten(1).any(dim=1).all()


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    model, (images, targets) = small_model(), some_images(1)
    found = gradients(model, CROSS_ENTROPY, images, targets)
    step = torch.zeros_like(images)
    place = found.flatten().abs().argmax()
    step.view(-1)[place] = 1e-2
    above, below = (
        CROSS_ENTROPY(log_odds(model, images + sign * step), targets, progress=1.0) for sign in (1, -1)
    )
    assert ((above - below) / 2e-2).item() == pytest.approx(found.flatten()[place].item(), rel=0.05)


def test_an_image_is_attacked_as_it_would_be_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (images, targets) = small_model(), some_images(5)
    whole = gradients(model, CROSS_ENTROPY, images, targets).sign()
    monkeypatch.setattr(attacks, "IN_BATCH", 2)
    assert torch.equal(gradients(model, CROSS_ENTROPY, images, targets).sign(), whole)


@pytest.mark.parametrize("pixels", [{}, {"crop": 6}], ids=["whole", "cropped"])
def test_float_images_are_read_as_bytes_are(pixels: dict[str, int]) -> None:
    model, (images, _) = small_model(**pixels), some_images()
    torch.testing.assert_close(log_odds(model, images), model((images * 255).round().byte()).detach())


def test_a_model_that_changes_its_images_at_random_is_not_attacked() -> None:
    images, targets = some_images()
    with pytest.raises(ValueError, match="training mode"):
        gradients(small_model(shift=1).train(), CROSS_ENTROPY, images, targets)


def test_fgsm_moves_each_pixel_by_epsilon_or_to_the_border() -> None:
    model, (images, targets) = small_model(), some_images()
    gradient = gradients(model, CROSS_ENTROPY, images, targets)
    changed = fgsm(images, gradient, epsilon=0.1)
    moved = (changed - images).abs()
    to_border = (changed == 0) | (changed == 1)
    assert torch.where(to_border, moved <= 0.1 + 1e-6, (moved - 0.1).abs() < 1e-6)[gradient != 0].all()
    assert torch.equal(changed[gradient == 0], images[gradient == 0])
    assert (to_border & (moved < 0.09)).any()
    assert changed.min() >= 0
    assert changed.max() <= 1


@pytest.mark.parametrize("epsilon", [0.03, 0.3])
def test_bim_stays_within_epsilon_and_the_border(epsilon: float) -> None:
    model, (images, targets) = small_model(), some_images()
    changed = bim(images, aimed(model, targets), epsilon=epsilon)
    assert (changed - images).abs().max() == pytest.approx(epsilon, abs=1e-6)
    assert changed.min() >= 0
    assert changed.max() <= 1


def test_bim_of_one_step_is_a_short_fgsm() -> None:
    model, (images, targets) = small_model(), some_images()
    one = bim(images, aimed(model, targets), epsilon=0.2, steps=1)
    step = fgsm(images, aimed(model, targets)(images), epsilon=0.2 * attacks.STEP)
    torch.testing.assert_close(one, step)


@pytest.mark.parametrize("name", ["capsnet-light", "cnn-light"])
def test_the_loss_rises_and_more_with_several_steps(name: str) -> None:
    model, (images, targets) = small_model(name), some_images()
    gradient = aimed(model, targets)
    one, several = fgsm(images, gradient(images), epsilon=0.1), bim(images, gradient, epsilon=0.1)
    before, after, later = (
        CROSS_ENTROPY(log_odds(model, shown), targets, progress=1.0) for shown in (images, one, several)
    )
    assert before < after < later


def test_no_epsilon_changes_nothing() -> None:
    model, (images, targets) = small_model(), some_images()
    gradient = aimed(model, targets)
    assert torch.equal(fgsm(images, gradient(images), epsilon=0.0), images)
    assert torch.equal(bim(images, gradient, epsilon=0.0), images)
    assert torch.equal(attacks.noise(images, epsilon=0.0, generator=torch.Generator()), images)
    assert all(torch.equal(moved, images) for moved in attacks.moved(images, by=0))
    turned = attacks.turned(images, share=0.0, generator=torch.Generator())
    torch.testing.assert_close(turned, images, atol=1e-5, rtol=0)


def test_margin_loss_is_blind_where_an_image_is_known_well() -> None:
    """The reason why attacks aim at cross-entropy."""

    class Sure(torch.nn.Module):
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return torch.tensor([4.0, -4.0]) + 0.1 * pixels.flatten(1)[:, :2]

    model = ImageModel(embedding=Pixels(channels=1, height=8, width=8), network=Sure(), classes=2).eval()
    images, targets = some_images(3)[0], torch.tensor([[1.0, 0.0]] * 3)
    assert not gradients(model, Margin(), images, targets).any()
    assert gradients(model, CROSS_ENTROPY, images, targets).any()


def test_images_move_by_whole_pixels_and_zeros_come_in() -> None:
    images, _ = some_images(2)
    left, right, up, down = attacks.moved(images, by=2)
    assert torch.equal(left[..., :-2], images[..., 2:])
    assert torch.equal(right[..., 2:], images[..., :-2])
    assert torch.equal(up[..., :-2, :], images[..., 2:, :])
    assert torch.equal(down[..., 2:, :], images[..., :-2, :])
    assert not left[..., -2:].any()


@pytest.fixture(scope="module", autouse=True)
def _quick_measurements() -> Iterator[None]:
    """Two steps of BIM where all is measured; what ten do is tested above."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attacks, "bim", partial(bim, steps=2))
        yield


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Two seeds of a capsule network and a convolutional one, of random weights, on a few digits."""
    folder = tmp_path_factory.mktemp("runs")
    loaded = side_by_side.load(
        [
            save_image_run(folder / "caps-0"),
            save_image_run(folder / "caps-1", seed=1),
            save_image_run(folder / "cnn", "cnn-light"),
        ]
    )
    images = side_by_side.chosen_images(loaded, data=None, most=20, seed=0, say=lambda message: None)
    return measure(loaded, images, seed=0, count=lambda done, of: None)


def test_seeds_of_a_model_are_one_group(measured: Measured) -> None:
    assert measured.groups == {"capsnet-light": (0, 1), "cnn-light": (2,)}
    score = words.score(measured, "capsnet-light", "fgsm", 0.1)
    assert len(score.values) == 2
    assert score.deviation is not None


def test_models_of_one_name_are_told_apart_by_their_settings(measured: Measured) -> None:
    first = measured.runs[0]
    other = replace(first, config=replace(first.config, images=replace(first.config.images, shift=2)))
    assert side_by_side.grouped([first, other]) == {
        "capsnet-light, images.shift 0": (0,),
        "capsnet-light, images.shift 2": (1,),
    }


def test_every_run_meets_every_attack_once(measured: Measured) -> None:
    keys = [(one.run, one.attack, one.source, one.level) for one in measured.records]
    assert len(keys) == len(set(keys))
    for run in range(3):
        found = {(one.attack, one.level) for one in measured.records if one.run == run}
        asked = {(attack, level) for attack, levels in measuring.LEVELS.items() for level in levels}
        assert found == asked | {("clean", 0.0)}
        sources = {one.source for one in measured.records if one.run == run and "transfer" in one.attack}
        assert sources == {0, 1, 2} - {run}


def test_the_worst_is_never_better_than_any_attack(measured: Measured) -> None:
    worst = {(one.run, one.level): one.right for one in measured.records if one.attack == "worst"}
    for one in measured.records:
        if one.attack in measuring.BY_EPSILON:
            assert (worst[one.run, one.level] <= one.right).all()


def test_what_changes_nothing_leaves_the_clean_accuracy(measured: Measured) -> None:
    for attack in ("affine", "shift"):
        for name in measured.groups:
            score = words.score(measured, name, attack, 0)
            assert score == words.score(measured, name, "clean")


def test_all_runs_see_the_same_images_by_the_seed(measured: Measured) -> None:
    def drawn(first: int, seed: int) -> torch.Tensor:
        order = [*measured.runs[first:], *measured.runs[:first]]
        return side_by_side.chosen_images(
            order, data=None, most=20, seed=seed, say=lambda message: None
        ).pixels

    assert torch.equal(drawn(0, 0), measured.images.pixels)
    assert torch.equal(drawn(2, 0), measured.images.pixels)
    assert not torch.equal(drawn(0, 1), measured.images.pixels)
    again = measure(measured.runs, measured.images, seed=0, count=lambda done, of: None)
    for one, other in zip(measured.records, again.records, strict=True):
        assert np.array_equal(one.right, other.right)


def of_rights(measured: Measured, first: list[int], second: list[int]) -> Measured:
    """One run of each model, right about the images so."""
    records = tuple(
        Record(run, "clean", None, 0.0, np.array(right, dtype=np.int64), 1)
        for run, right in ((0, first), (2, second))
    )
    return replace(measured, records=records, groups={"caps": (0,), "cnn": (2,)})


@pytest.mark.parametrize(
    ("first", "second", "sign"),
    [([1] * 20, [0] * 20, 1), ([0] * 20, [1] * 20, -1), ([1] * 20, [1] * 18 + [0] * 2, 0)],
    ids=["ahead", "behind", "alike"],
)
def test_a_lead_needs_more_than_chance(
    measured: Measured, first: list[int], second: list[int], sign: int
) -> None:
    made = of_rights(measured, first, second)
    assert words.lead(made, "caps", "cnn", "clean").sign == sign
    assert ("not alike" in words.clean_sentence(made)) == bool(sign)


def test_masking_is_told_where_strange_images_fool_more(measured: Measured) -> None:
    def so_often(attack: str) -> int:
        return 1 if attack == "transfer-bim" else 18

    records = tuple(
        one._replace(right=np.array([1] * so_often(one.attack) + [0] * (20 - so_often(one.attack))))
        for one in measured.records
        if one.attack in measuring.BY_EPSILON
    )
    told = next(iter(words.masking(replace(measured, records=records))))
    assert "“BIM, made with other models” leaves less than “BIM, white box” at ε 0.01" in told
    assert "5.0 % against 90.0 %" in told


@pytest.mark.parametrize("ending", ["", "-own"], ids=["cross-entropy", "own"])
def test_the_published_claim_is_told_with_our_numbers(measured: Measured, ending: str) -> None:
    """It must not pass for robustness that margin loss leaves images alone."""
    records = tuple(
        one._replace(right=np.full(20, int(one.attack == f"fgsm{ending}" and one.run < 2)))
        for one in measured.records
    )
    blind = {key: 0.5 if key[0] < 2 and key[1] == "own" else 0.0 for key in measured.blind}
    told = words.claim(replace(measured, records=records, blind=blind))
    assert told is not None
    assert told.count("capsnet-light 100.0 % beside cnn-light 0.0 % at ε 0.1;") == 1
    assert told.count("holds at no ε") == 1
    assert ("50.0 % of capsnet-light's images have no gradient" in told) == bool(ending)


def test_the_command_writes_page_pictures_and_records(command: Callable[..., Answer], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folders = [save_image_run(tmp_path / "caps"), save_image_run(tmp_path / "cnn", "cnn-light")]
    answer = command("report", "robustness", *folders, "--out", tmp_path / "page", "--images", 10)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("Clean accuracy: capsnet-light ")
    assert answer.out.splitlines()[-1] == str(tmp_path / "page" / "robustness.md")
    page = (tmp_path / "page" / "robustness.md").read_text()
    for picture in ("attacks.svg", "transformations.svg", "images.png"):
        assert f"({picture})" in page
        assert (tmp_path / "page" / picture).stat().st_size > 1000
    found = json.loads((tmp_path / "page" / "robustness.json").read_text())
    assert found["images"] == 10
    assert {one["level"] for one in found["records"] if one["attack"] == "bim"} == set(EPSILONS)


def test_one_run_alone_has_a_page_too(command: Callable[..., Answer], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    answer = command(
        "report", "robustness", save_image_run(tmp_path / "caps"), "--out", tmp_path / "page", "--images", 5
    )
    assert answer.code == 0, answer.err
    page = (tmp_path / "page" / "robustness.md").read_text()
    assert "One model alone" in page
    assert "made with other models**" not in page


def test_what_cannot_stand_side_by_side_is_refused(command: Callable[..., Answer], tmp_path: Path) -> None:
    run = save_image_run(tmp_path / "caps")
    other = save_image_run(tmp_path / "two", "cnn-light", classes=9)
    save_small_run(tmp_path / "text")
    for given, code, told in (
        ([tmp_path / "text"], 2, "its model reads texts"),
        ([tmp_path / "nowhere"], 1, "no such run folder"),
        ([run, other], 2, "its classes are not those of"),
        ([run, run], 2, "given twice"),
        ([run, "--data", "nosuch"], 2, "nosuch"),
        ([run, "--out", run / "config.json"], 2, "is a file"),
    ):
        answer = command("report", "robustness", "--out", tmp_path / "page", *given)
        assert (answer.code, answer.out) == (code, ""), answer.err
        assert told in answer.err.splitlines()[-1]
        assert not (tmp_path / "page").exists()


def test_runs_for_images_of_another_shape_are_refused(measured: Measured, tmp_path: Path) -> None:
    config = parse({**NETWORKS["cnn-light"], "data": {"name": "digits"}})
    model = models.build_model(config, embedding=Pixels(channels=1, height=9, width=8), classes=10)
    common = {"config": config, "classes": CLASSES, "multi_label": False, "metrics": {}, "card": "#\n"}
    runs.save(tmp_path / "tall", model=model, tokenizer=None, **common)
    with pytest.raises(UsageError, match="reads images of 9x8"):
        side_by_side.load([measured.runs[0].folder, tmp_path / "tall"])
