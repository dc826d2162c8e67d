import gzip
import os
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
from array_formats import idx_bytes, norb_bytes, write_affnist
from PIL import Image

from capstext import hub
from capstext.caches import cache_folder
from capstext.data import decoded_images, sources
from capstext.data.image_catalog import IMAGE_DATASETS
from capstext.data.images import Shape, holds_images, load_images, locate_images, with_cut
from capstext.errors import CapstextError, UsageError

GENERATOR = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_caches(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """CAPSTEXT_DATA with a small mnist in hub layout: 40 training and 20 test digits."""
    folder = tmp_path / "home"
    (folder / "mnist").mkdir(parents=True)
    for split, count in (("train", 40), ("test", 20)):
        digits(count).to_parquet(folder / "mnist" / f"{split}.parquet")
    monkeypatch.setenv("CAPSTEXT_DATA", str(folder))
    return folder


def digits(count: int, names: list[str] = list("0123456789"), side: int = 28) -> datasets.Dataset:  # noqa: B006
    features = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=names))
    pixels = GENERATOR.integers(0, 256, (count, side, side), dtype=np.uint8)
    images = [Image.fromarray(image) for image in pixels]
    rows = {"image": images, "label": [number % len(names) for number in range(count)]}
    return datasets.Dataset.from_dict(rows, features=features)


def picture(path: Path, *, side: int = 6, colour: bool = False, shade: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (side, side, 3) if colour else (side, side)
    pixels = GENERATOR.integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels if shade is None else np.full_like(pixels, shade)).save(path)
    return path


def test_the_digits_of_scikit_learn_need_nothing(monkeypatch):
    monkeypatch.delenv("CAPSTEXT_DATA", raising=False)
    corpus = load_images("digits")
    known = IMAGE_DATASETS["digits"]
    assert {name: len(split) for name, split in corpus.splits.items()} == dict(known.splits)
    assert corpus.shape == (known.height, known.width, known.channels) == (8, 8, 1)
    assert corpus.classes == known.classes
    assert corpus.test_splits == ("test",)
    train, test = corpus.split("train"), corpus.split("test")
    assert train.pixels.dtype == np.uint8
    assert train.pixels.max() == 255
    assert train.labels.dtype == np.bool_
    assert (train.labels.sum(axis=1) == 1).all()
    assert (np.abs(test.labels.mean(axis=0) - train.labels.mean(axis=0)) < 0.01).all(), "stratified"
    np.testing.assert_array_equal(load_images("digits").split("test").pixels, test.pixels)
    from sklearn.datasets import load_digits

    everything = np.concatenate([train.pixels, test.pixels])
    assert sorted(everything.sum(axis=(1, 2, 3), dtype=int)) == sorted(
        np.rint(load_digits().images * 255 / 16).sum(axis=(1, 2)).astype(int)
    )
    with pytest.raises(UsageError, match="digits has no split 'dev'; splits found: train, test"):
        corpus.split("dev")


def test_a_folder_in_hub_layout_is_decoded_once(home, monkeypatch):
    corpus = load_images("mnist")
    assert {name: len(split) for name, split in corpus.splits.items()} == {"train": 40, "test": 20}
    rows = datasets.Dataset.from_parquet(str(home / "mnist" / "train.parquet"))
    np.testing.assert_array_equal(corpus.split("train").pixels[7, :, :, 0], np.asarray(rows[7]["image"]))
    assert corpus.split("train").labels.argmax(axis=1).tolist() == rows["label"][:]
    assert "train has 40 of 60,000 published images: say so with every figure" in corpus.notes
    monkeypatch.setattr(decoded_images, "decode_image", None)
    again = load_images("mnist")
    for name, split in corpus.splits.items():
        np.testing.assert_array_equal(again.split(name).pixels, split.pixels)
        np.testing.assert_array_equal(again.split(name).labels, split.labels)
    assert again.classes == corpus.classes
    assert again.notes == corpus.notes


def test_changed_files_are_decoded_anew_and_so_is_a_broken_cache(home):
    before = load_images("mnist").split("test").pixels
    kept = list((cache_folder() / "images").iterdir())
    assert [path.suffix for path in kept] == [".npz"]
    kept[0].write_bytes(kept[0].read_bytes()[:-1000])
    np.testing.assert_array_equal(load_images("mnist").split("test").pixels, before)
    digits(30).to_parquet(home / "mnist" / "test.parquet")
    assert len(load_images("mnist").split("test")) == 30


def test_a_cache_that_cannot_be_written_costs_time_only(home, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(load_images("mnist").split("test")) == 20


def test_without_a_local_copy_the_pinned_revision_of_the_hub_is_asked_once(monkeypatch):
    monkeypatch.delenv("CAPSTEXT_DATA", raising=False)
    asked = []
    names = ["T - shirt / top", *IMAGE_DATASETS["fashion_mnist"].classes[1:]]

    def load(name, revision):
        asked.append((name, revision))
        return {"train": digits(30, names), "test": digits(20, names)}

    monkeypatch.setattr(hub, "load_dataset", load)
    known = IMAGE_DATASETS["fashion_mnist"]
    assert locate_images(known) == sources.Location("hub", known.hub.id)
    corpus = load_images("Fashion-MNIST")
    assert corpus.classes == known.classes, "under the names of the catalogue"
    assert corpus.origin == f"hub {known.hub.id}@{known.hub.revision}"
    load_images("fashion_mnist")
    assert asked == [(known.hub.id, known.hub.revision)]
    load_images("owner/own@main")
    load_images("owner/own@main")
    assert asked[1:] == [("owner/own", "main")] * 2, "a branch may have moved on"


def test_images_without_labels_are_left_out(tmp_path):
    rows = digits(6, ["a", "b"])
    features = rows.features
    table = rows.to_dict() | {"label": [0, 1, -1, 0, 1, -1]}
    datasets.Dataset.from_dict(table, features=features).to_parquet(tmp_path / "own.parquet")
    corpus = load_images(tmp_path / "own.parquet")
    assert len(corpus.split("train")) == 4
    assert corpus.classes == ("a", "b")


def test_labels_that_are_plain_values_become_sorted_classes(tmp_path):
    rows = digits(4).remove_columns("label").add_column("label", [10, 9, 10, 2])
    rows.to_parquet(tmp_path / "own.parquet")
    corpus = load_images(tmp_path / "own.parquet")
    assert corpus.classes == ("2", "9", "10")
    assert corpus.split("train").labels.argmax(axis=1).tolist() == [2, 1, 2, 0]


def test_tables_that_cannot_be_used_are_named(tmp_path):
    digits(4).remove_columns("label").to_parquet(tmp_path / "bare.parquet")
    with pytest.raises(CapstextError, match=r"bare\.parquet: no column of labels; columns found: image"):
        load_images(tmp_path / "bare.parquet")
    mixed = datasets.concatenate_datasets([digits(2), digits(1, side=9)])
    mixed.to_parquet(tmp_path / "mixed.parquet")
    with pytest.raises(CapstextError, match=r"split train, row 3: an image of \(9, 9, 1\), the first is"):
        load_images(tmp_path / "mixed.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(CapstextError, match=r"broken\.parquet: "):
        load_images(tmp_path / "broken.parquet")
    cells = {"image": [{"bytes": b"\x89PNG\r\n\x1a\n", "path": None}] * 2, "label": [0, 1]}
    datasets.Dataset.from_dict(cells, features=digits(1).features).to_parquet(tmp_path / "cut.parquet")
    with pytest.raises(CapstextError, match=r"cut\.parquet, split train, row 1: "):
        load_images(tmp_path / "cut.parquet")


def test_idx_files_are_a_corpus_and_may_stand_for_mnist(tmp_path, monkeypatch):
    folder = tmp_path / "mnist"
    folder.mkdir()
    for prefix, count in (("train", 20), ("t10k", 10)):
        pixels = GENERATOR.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 3
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(pixels)))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    own = load_images(folder)
    assert {name: len(split) for name, split in own.splits.items()} == {"train": 20, "test": 10}
    assert own.classes == ("0", "1", "2")
    np.testing.assert_array_equal(own.split("test").pixels[..., 0], pixels)
    assert own.split("test").pixels.flags.writeable, "torch warns of tensors that share read-only arrays"
    monkeypatch.setenv("CAPSTEXT_DATA", str(tmp_path))
    assert load_images("mnist").classes == IMAGE_DATASETS["mnist"].classes
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(CapstextError, match="mnist: no file of labels for split test; found: t10k-images"):
        load_images(folder)


def test_smallnorb_is_read_from_its_own_files_and_halved(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSTEXT_DATA", str(tmp_path))
    with pytest.raises(CapstextError, match=r"smallnorb is not on the hub: put its \*-training-dat\.mat"):
        load_images("smallnorb")
    (tmp_path / "smallnorb").mkdir()
    for split, part in (("training", "5x46789"), ("testing", "5x01235")):
        pairs = GENERATOR.integers(0, 256, (10, 2, 96, 96), dtype=np.uint8)
        arrays = {"dat": pairs, "cat": np.arange(10, dtype=np.int32) % 5, "info": np.zeros((10, 4), np.int32)}
        for name, array in arrays.items():
            path = tmp_path / "smallnorb" / f"smallnorb-{part}x9x18x6x2x96x96-{split}-{name}.mat"
            path.write_bytes(norb_bytes(array))
    corpus = load_images("smallnorb")
    assert corpus.shape == (48, 48, 2)
    assert corpus.classes == ("animal", "human", "airplane", "truck", "car")
    assert list(corpus.splits) == ["train", "test"]
    assert corpus.split("test").pixels[9, 0, 0, 1] == int(pairs[9, 1, :2, :2].mean() + 0.5)
    path.with_name(path.name.replace("-info", "-cat")).write_bytes(norb_bytes(np.arange(10, dtype=np.int32)))
    with pytest.raises(CapstextError, match="split test has class numbers 0 to 9, but there are 5 classes"):
        load_images("smallnorb")


def test_affnist_is_read_from_files_and_batches(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSTEXT_DATA", str(tmp_path))
    folder = tmp_path / "affnist"
    folder.mkdir()
    pixels = GENERATOR.integers(0, 256, (24, 40, 40), dtype=np.uint8)
    codes = np.arange(24) % 10
    write_affnist(folder / "test.mat", pixels[:4], codes[:4])
    assert list(load_images("affnist").splits) == ["test"]
    for number in range(1, 12):
        write_affnist(folder / "training_batches" / f"{number}.mat", pixels[[number]], codes[[number]])
    corpus = load_images("affnist")
    assert list(corpus.splits) == ["train", "test"]
    assert corpus.shape == (40, 40, 1)
    np.testing.assert_array_equal(corpus.split("train").pixels[..., 0], pixels[1:12], "in order of numbers")
    assert corpus.split("train").labels.argmax(axis=1).tolist() == codes[1:12].tolist()


def test_sets_made_from_mnist_are_the_same_every_time(home):
    pairs = load_images("multimnist")
    assert pairs.shape == (36, 36, 1)
    assert pairs.multi_label
    assert (pairs.split("train").labels.sum(axis=1) == 2).all()
    assert {name: len(split) for name, split in pairs.splits.items()} == {"train": 40, "test": 20}
    shifted = load_images("shifted-mnist")
    assert shifted.shape == (40, 40, 1)
    assert shifted.test_splits == ("test", "test_affine")
    assert not shifted.multi_label
    for name, corpus in (("multi-mnist", pairs), ("shifted_mnist", shifted)):
        again = load_images(name)
        for split in corpus.splits:
            np.testing.assert_array_equal(again.split(split).pixels, corpus.split(split).pixels)
    assert locate_images(IMAGE_DATASETS["multimnist"]).where == str(home / "mnist")


def test_folders_of_classes_and_of_splits(tmp_path):
    for split in ("train", "test"):
        for name in ("dog/1.png", "cat/1.png", "cat/more/2.jpg"):
            picture(tmp_path / split / name)
    (tmp_path / "train" / "notes.txt").touch()
    corpus = load_images(tmp_path)
    assert corpus.classes == ("cat", "dog")
    assert corpus.split("train").labels.tolist() == [[True, False], [True, False], [False, True]]
    assert corpus.shape == (6, 6, 1)
    assert corpus.notes == ("1 × file ignored (no PNG or JPEG image)",)
    assert list(corpus.splits) == ["train", "test"]
    alone = load_images(tmp_path / "test")
    np.testing.assert_array_equal(alone.split("train").pixels, corpus.split("test").pixels)


def test_grey_images_among_coloured_ones_become_coloured(tmp_path):
    picture(tmp_path / "a" / "1.png", colour=True)
    picture(tmp_path / "b" / "1.png", shade=7)
    corpus = load_images(tmp_path)
    assert corpus.shape == (6, 6, 3)
    assert (corpus.split("train").pixels[1] == 7).all()
    assert corpus.notes == ("1 × grey image given three channels",)


def test_images_of_two_sizes_are_refused_unless_a_shape_is_wanted(tmp_path):
    picture(tmp_path / "a" / "1.png")
    picture(tmp_path / "b" / "1.png", side=9)
    with pytest.raises(CapstextError, match=r"b/1\.png is 9x9 pixels, .*a/1\.png is 6x6; scale"):
        load_images(tmp_path)
    corpus = load_images(tmp_path, shape=Shape(6, 6, 1))
    assert corpus.shape == (6, 6, 1)
    assert corpus.notes == ("1 × image scaled to the wanted size",)


def test_bad_images_stop_the_reading_or_are_counted(tmp_path):
    for name in ("a/1.png", "a/2.png", "b/1.png"):
        picture(tmp_path / name)
    broken = tmp_path / "a" / "2.png"
    broken.write_bytes(broken.read_bytes()[:45])
    with pytest.raises(CapstextError, match=r"a/2\.png: broken image"):
        load_images(tmp_path)
    corpus = load_images(tmp_path, skip_bad=True)
    assert corpus.split("train").labels.argmax(axis=1).tolist() == [0, 1]
    assert corpus.notes[0] == "1 × bad image skipped"
    assert corpus.notes[1].startswith(f"{broken}: broken image")


def test_what_is_no_set_of_images_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("CAPSTEXT_DATA", raising=False)
    with pytest.raises(CapstextError, match="no images: neither PNG or JPEG"):
        load_images(tmp_path)
    loose = picture(tmp_path / "loose.png")
    with pytest.raises(CapstextError, match=r"loose\.png: in no class; put each image into a folder"):
        load_images(tmp_path)
    with pytest.raises(CapstextError, match=r"loose\.png: give the folder of images"):
        load_images(loose)
    with pytest.raises(CapstextError, match=r"no such file: \./nothing"):
        load_images("./nothing")
    with pytest.raises(UsageError, match=r"unknown set of images 'mnits' .* did you mean mnist\?"):
        load_images("mnits")
    with pytest.raises(UsageError, match="mr is a set of texts"):
        load_images("mr")
    with pytest.raises(UsageError, match="mnist is a set of images"):
        sources.load("mnist")
    loose.unlink()
    picture(tmp_path / "only" / "1.png")
    with pytest.raises(CapstextError, match=r"one class only \(only\); a classifier needs two"):
        load_images(tmp_path)
    assert load_images(tmp_path, for_training=False).classes == ("only",)


def test_a_model_gets_its_own_shape_and_classes(tmp_path):
    for name in ("cat", "dog", "eel"):
        picture(tmp_path / name / "1.png", side=12, colour=True)
    corpus = load_images(tmp_path, classes=("dog", "ant", "cat"), shape=Shape(6, 6, 1))
    assert corpus.shape == (6, 6, 1)
    assert corpus.classes == ("dog", "ant", "cat")
    assert corpus.split("train").labels.tolist() == [[False, False, True], [True, False, False]]
    assert corpus.notes[-1] == ("split train: 1 images left out, their labels unknown to the model: eel (1)")
    with pytest.raises(CapstextError, match="none of its labels is a class of the model"):
        load_images(tmp_path, classes=("0", "1"))
    scaled = load_images("digits", shape=Shape(28, 28, 1))
    assert scaled.shape == (28, 28, 1)
    assert "1,797 × image scaled to the wanted size" in scaled.notes


def test_a_cut_is_stratified_seeded_and_told():
    corpus = load_images("digits")
    cut = with_cut(corpus, "validation", share=0.1, seed=1)
    assert len(cut.split("validation")) == 144
    assert len(cut.split("train")) == 1438 - 144
    assert cut.split("validation").labels.sum(axis=0).min() >= 13
    assert cut.notes[-1] == "144 validation images are cut from the training images, stratified, seed 1"
    other = with_cut(corpus, "validation", share=0.1, seed=2)
    assert (other.split("validation").pixels != cut.split("validation").pixels).any()
    with pytest.raises(UsageError, match=r"share of validation images is 0\.9"):
        with_cut(corpus, "validation", share=0.9, seed=0)


def test_images_are_told_from_texts_without_reading_them(home, tmp_path):
    assert holds_images("mnist")
    assert not holds_images("mr")
    assert holds_images(home / "mnist")
    assert holds_images(home / "mnist" / "test.parquet")
    (tmp_path / "texts" / "pos").mkdir(parents=True)
    (tmp_path / "texts" / "pos" / "1.txt").write_text("fine")
    assert not holds_images(tmp_path / "texts")
    picture(tmp_path / "texts" / "pos" / "logo.png")
    assert not holds_images(tmp_path / "texts"), "a picture among texts makes no set of images"
    datasets.Dataset.from_dict({"text": ["a"], "label": [0]}).to_parquet(tmp_path / "texts.parquet")
    assert not holds_images(tmp_path / "texts.parquet")
    picture(tmp_path / "pictures" / "a" / "1.png")
    assert holds_images(tmp_path / "pictures")
    assert not holds_images("nothing.csv")


def test_reading_a_picture_imports_neither_torch_nor_datasets(tmp_path):
    path = picture(tmp_path / "a.png")
    code = (
        "import sys; from capstext.data.image_files import read_image\n"
        f"read_image({str(path)!r}, height=6, width=6, channels=1)\n"
        "assert not {'torch', 'datasets', 'sklearn', 'scipy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


@pytest.mark.skipif("CAPSTEXT_DATA" not in os.environ, reason="CAPSTEXT_DATA is not set")
def test_the_real_mnist_is_whole():
    if not Path(os.environ["CAPSTEXT_DATA"], "mnist").is_dir():
        pytest.skip("no local mnist")
    corpus = load_images("mnist")
    assert corpus.split("train").pixels.shape == (60000, 28, 28, 1)
    assert corpus.split("train").labels.argmax(axis=1)[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert corpus.split("test").labels.argmax(axis=1)[:5].tolist() == [7, 2, 1, 0, 4]
    assert round(float(corpus.split("train").pixels.mean()), 2) == 33.32
    assert corpus.notes == ()
