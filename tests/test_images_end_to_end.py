"""Images from a config to an answer: train, evaluate, classify, compare, and bad input on the way."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from answers import Answer
from PIL import Image

from capstext import config as settings
from capstext import runs
from capstext.classifier import Classifier
from capstext.data.images import load_images
from capstext.errors import CapstextError
from capstext.image_classifier import IN_BATCH, ImageClassifier
from capstext.preparation import prepare

Command = Callable[..., Answer]
SMALL = (
    *("model.name=capsnet-light", "model.filters=[8, 16]", "model.kernels=[3, 3]", "model.strides=[1, 2]"),
    *("model.dim=4", "model.class_dim=4", "model.decoder=[16]", "routing=dynamic", "loss=margin"),
    *("images.shift=1", "training.epochs=2", "training.learning_rate=0.01"),
)


def overrides(*more: str) -> list[str]:
    return [part for setting in (*SMALL, *more) for part in ("--set", setting)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small capsule network that knows digits somewhat."""
    from capstext import experiment

    folder = tmp_path_factory.mktemp("runs") / "digits"
    prepared = prepare(settings.load(None, overrides=["data.name=digits", *SMALL]))
    experiment.train(prepared, folder, command="a test")
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A grey picture, one in colour and of another size, and a file that is none."""
    folder = tmp_path / "pictures"
    (folder / "more").mkdir(parents=True)
    pixels = load_images("digits").splits["test"].pixels
    Image.fromarray(pixels[0, :, :, 0]).save(folder / "a.png")
    Image.fromarray(pixels[1, :, :, 0]).convert("RGB").resize((20, 30)).save(folder / "more" / "b.jpg")
    (folder / "notes.txt").write_text("no picture")
    return folder


def test_a_trained_run_knows_digits_and_is_read_back_whole(run: Path, command: Command) -> None:
    answer = command("evaluate", run, "--json", "-q")
    assert answer.code == 0, answer.err
    scores = json.loads(answer.out)
    assert scores["accuracy"] > 0.5
    assert scores["rows"] == 359
    assert json.loads((run / "metrics.json").read_text())["test"]["accuracy"] == scores["accuracy"]
    assert not (run / runs.TOKENIZER).exists()
    assert "image-classification" in (run / "README.md").read_text()


def test_the_same_config_gives_the_same_model(tmp_path: Path, command: Command) -> None:
    for name in ("one", "two"):
        answer = command("train", "--data", "digits", "--out", tmp_path / name, *overrides(), "-q")
        assert answer.code == 0, answer.err
    assert (tmp_path / "one" / runs.WEIGHTS).read_bytes() == (tmp_path / "two" / runs.WEIGHTS).read_bytes()


def test_pictures_are_classified_in_order_and_conversions_counted(
    run: Path, pictures: Path, command: Command
) -> None:
    answer = command("classify", run, pictures, "--top", 2)
    assert answer.code == 0, answer.err
    rows = [json.loads(line) for line in answer.out.splitlines()]
    assert [row["id"] for row in rows] == ["a.png", "more/b.jpg"]
    assert all(len(row["top"]) == 2 and 0 < row["score"] <= 1 for row in rows)
    assert "1 × image scaled" in answer.err
    assert "1 × colour image made grey" in answer.err
    assert "1 × file ignored" in answer.err


def test_a_broken_picture_ends_the_answers_or_is_skipped(run: Path, pictures: Path, command: Command) -> None:
    (pictures / "b.png").write_bytes((pictures / "a.png").read_bytes()[:50])
    shutil.copy(pictures / "a.png", pictures / "c.png")
    answer = command("classify", run, pictures)
    assert answer.code == 1
    assert [json.loads(line)["id"] for line in answer.out.splitlines()] == ["a.png"]
    assert "b.png: broken image" in answer.err.strip().splitlines()[-1]
    answer = command("classify", run, pictures, "--skip-bad")
    assert answer.code == 0, answer.err
    assert [json.loads(line)["id"] for line in answer.out.splitlines()] == ["a.png", "c.png", "more/b.jpg"]
    assert "1 × bad image skipped" in answer.err


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["a.png", "--explain"], 2, "--explain: is for texts"),
        (["a.png", "--text-column", "x"], 2, "--text-column: is for texts"),
        (["-"], 2, "not read from a pipe"),
        (["notes.txt"], 1, "notes.txt: neither a PNG nor a JPEG"),
        (["none"], 1, "no such file"),
        (["empty"], 1, "empty: no PNG or JPEG files"),
    ],
)
def test_what_is_no_picture_is_told_in_one_line(
    arguments: list[str],
    code: int,
    part: str,
    run: Path,
    pictures: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(pictures)
    Path("empty").mkdir()
    answer = command("classify", run, *arguments)
    assert answer.code == code, answer
    assert part in answer.err.strip().splitlines()[-1]
    assert answer.out == ""


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--data", "digits"], "digits holds images, and the model reads texts"),
        (["--data", "mr", *overrides()], "mr is a set of texts"),
        (["--data", "digits", "--set", "model.name=capsnet"], "window 9 does not fit"),
        (["--data", "digits", *overrides("images.crop=9")], "images.crop: 9 does not fit images of 8x8"),
        (
            ["--data", "digits", *overrides("images.rotation=200")],
            "images.rotation: 200.0 is outside 0 to 180",
        ),
    ],
)
def test_what_does_not_fit_is_told_before_the_training(
    arguments: list[str], part: str, tmp_path: Path, command: Command
) -> None:
    answer = command("train", *arguments, "--out", tmp_path / "run")
    assert answer.code == 2, answer
    assert part in answer.err.strip().splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_answers_do_not_depend_on_the_batch_and_arrays_are_taken_too(run: Path) -> None:
    classifier = ImageClassifier.load(run)
    pixels = load_images("digits").splits["train"].pixels[: IN_BATCH + 3]
    together = classifier.predict_proba(list(pixels))
    assert together.shape == (IN_BATCH + 3, 10)
    alone = classifier.predict_proba([pixels[IN_BATCH + 1][:, :, 0]])
    np.testing.assert_allclose(together[IN_BATCH + 1], alone[0], atol=1e-5)
    assert classifier.predict([pixels[0]]) == [classifier.classes[together[0].argmax()]]
    with pytest.raises(TypeError, match="put it in a list"):
        classifier.predict("digit.png")
    with pytest.raises(TypeError, match="expected bytes"):
        classifier.predict([pixels[0].astype(float)])


def test_each_classifier_refuses_the_other_kind_of_run(run: Path) -> None:
    with pytest.raises(CapstextError, match="reads images"):
        Classifier.load(run)


def test_a_fold_of_images_holds_every_image_once() -> None:
    parts = [
        prepare(
            settings.load(None, overrides=["data.name=digits", *SMALL, f"data.fold={fold}", "data.folds=3"])
        )
        for fold in range(3)
    ]
    assert sum(len(prepared.rows["test"]) for prepared in parts) == 1797
    for prepared in parts:
        assert sum(map(len, prepared.rows.values())) == 1797
        assert prepared.rows["train"].targets().sum(dim=0).min() > 50


def test_overlapping_digits_are_drawn_apart() -> None:
    """Each true class draws its own digit: the error is that of two drawings, and no label may be swapped."""
    from capstext.data.multi_mnist import MultiMnist
    from capstext.models.image import ImageModel
    from capstext.rows import ImageRows

    prepared = prepare(settings.load(None, overrides=["data.name=digits", *SMALL, "images.shift=0"]))
    digits = load_images("digits").splits["train"]
    rows = ImageRows(MultiMnist(digits=digits, seed=0, most=0).first(6))
    model = prepared.model.eval()
    assert isinstance(model, ImageModel)
    assert model.decoder is not None
    inputs = rows.inputs(range(6), training=True)
    assert inputs["shown"].sum(dim=-1).tolist() == [[1, 1]] * 6
    _, error = model(**inputs)
    poses = model.network.capsules(model.embedding(inputs["pixels"])).poses
    wanted = sum(
        (model.decoder(poses, inputs["shown"][:, part]) - inputs["parts"][:, part] / 255).square().sum()
        for part in (0, 1)
    )
    torch.testing.assert_close(error, model.reconstruction * wanted / 6)


def test_images_are_compared_as_texts_are(tmp_path: Path, command: Command) -> None:
    config = tmp_path / "compare.yaml"
    config.write_text(
        "datasets: [digits]\nseeds: 1\nbudget: {epochs: 1}\n"
        "models:\n"
        "  caps: {model: {name: capsnet-light, filters: [8], kernels: [3], strides: [2], dim: 4}}\n"
        "  cnn: {model: {name: cnn-light, filters: [8], kernels: [3], strides: [2]}}\n"
    )
    answer = command("compare", config, "--out", tmp_path / "out", "--json", "--workers", 1)
    assert answer.code == 0, answer.err
    found = {row["model"]: row for row in json.loads(answer.out) if row["metric"] == "accuracy"}
    assert found["caps"]["embeddings"] == "pixels"
    assert found["caps"]["mean"] > 0.1
    families = {
        json.loads(file.read_text())["model"]: json.loads(file.read_text())["family"]
        for file in (tmp_path / "out" / "runs").rglob("*.json")
    }
    assert families == {"caps": "capsules", "cnn": "baseline"}
