import gzip
import struct

import numpy as np
import pytest
from array_formats import idx_bytes, norb_bytes, write_affnist

from capstext.data.array_files import (
    halved,
    read_affnist,
    read_idx,
    read_idx_images,
    read_norb,
    read_norb_matrix,
)
from capstext.errors import CapstextError

GENERATOR = np.random.default_rng(0)
DIGITS = GENERATOR.integers(0, 256, (6, 4, 5), dtype=np.uint8)
CODES = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)
PAIRS = GENERATOR.integers(0, 256, (6, 2, 8, 10), dtype=np.uint8)
CATEGORIES = np.array([0, 1, 2, 3, 4, 0], dtype=np.int32)
INFO = GENERATOR.integers(0, 9, (6, 4), dtype=np.int32)
TURNED = GENERATOR.integers(0, 256, (3, 40, 40), dtype=np.uint8)


@pytest.fixture
def written(tmp_path):
    def write(name: str, content: bytes):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_idx_files_are_read_plain_and_zipped(written, pack):
    images = written("train-images-idx3-ubyte", pack(idx_bytes(DIGITS)))
    labels = written("train-labels-idx1-ubyte", pack(idx_bytes(CODES)))
    found = read_idx_images(images, labels)
    np.testing.assert_array_equal(found.pixels, DIGITS[..., None])
    np.testing.assert_array_equal(found.codes, CODES)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_norb_files_become_images_with_two_channels(written, pack):
    files = [
        written(f"x-{name}.mat", pack(norb_bytes(array)))
        for name, array in (("dat", PAIRS), ("cat", CATEGORIES), ("info", INFO))
    ]
    found = read_norb(*files)
    assert found.pixels.shape == (6, 8, 10, 2)
    np.testing.assert_array_equal(found.pixels[2, :, :, 1], PAIRS[2, 1])
    np.testing.assert_array_equal(found.codes, CATEGORIES)
    np.testing.assert_array_equal(found.info, INFO)
    assert read_norb(*files[:2]).info is None


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_norb_matrices_may_hold_other_numbers(written, kind):
    values = np.array([[1.5, -2], [0, 3]], dtype=kind)
    np.testing.assert_array_equal(read_norb_matrix(written("a.mat", norb_bytes(values))), values)


def test_halved_images_are_means_of_four_pixels():
    found = halved(np.moveaxis(PAIRS, 1, 3), block=4)
    assert found.shape == (6, 4, 5, 2)
    means = PAIRS.reshape(6, 2, 4, 2, 5, 2).mean(axis=(3, 5))
    np.testing.assert_array_equal(np.moveaxis(found, 3, 1), np.floor(means + 0.5))
    assert halved(np.full((1, 5, 5, 1), 255, dtype=np.uint8)).tolist() == [[[[255], [255]], [[255], [255]]]]


def test_affnist_columns_become_upright_images(tmp_path):
    found = read_affnist(write_affnist(tmp_path / "1.mat", TURNED, CODES[:3]))
    np.testing.assert_array_equal(found.pixels, TURNED[..., None])
    assert found.codes.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no idx file of bytes: it begins with nothing"),
        (b"\x89PNG\r\n\x1a\n", "no idx file of bytes: it begins with 89504e47"),
        (b"\0\0\x0d\x01" + idx_bytes(CODES)[4:], "no idx file of bytes: it begins with 00000d01"),
        (idx_bytes(DIGITS)[:10], "cut short in its header"),
        (idx_bytes(DIGITS)[:-1], "cut short: 119 bytes of values, its header says 120"),
        (idx_bytes(DIGITS) + b"x", "too long: 121 bytes of values, its header says 120"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "cut short: 0 bytes of values"),
        (gzip.compress(idx_bytes(DIGITS))[:-9], "broken gzip file, or cut short"),
    ],
    ids=["empty", "png", "floats", "header", "short", "long", "huge", "gzip"],
)
def test_a_bad_idx_file_is_named(written, content, message):
    with pytest.raises(CapstextError, match=rf"images-idx3-ubyte: {message}"):
        read_idx(written("images-idx3-ubyte", content))


def test_idx_files_that_do_not_belong_together_are_named(written, tmp_path):
    images, labels = written("images", idx_bytes(DIGITS)), written("labels", idx_bytes(CODES[:4]))
    with pytest.raises(CapstextError, match=r"images has 6 images, but .*labels 4 rows"):
        read_idx_images(images, labels)
    with pytest.raises(CapstextError, match="labels: 1 dimensions; images have 3"):
        read_idx_images(labels, labels)
    with pytest.raises(CapstextError, match="images: 3 dimensions; labels have 1"):
        read_idx_images(images, images)
    with pytest.raises(CapstextError, match=r"no such file: .*nothing"):
        read_idx(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cut short: 0 bytes, no header"),
        (struct.pack("<Iiiii", 0x1E3D4C52, 1, 1, 1, 1), "no NORB matrix: unknown magic number 0x1E3D4C52"),
        (struct.pack(">Iiiii", 0x1E3D4C55, 1, 1, 1, 1), "no NORB matrix: unknown magic number 0x554C3D1E"),
        (struct.pack("<Ii", 0x1E3D4C55, 99), "no NORB matrix: 99 dimensions"),
        (struct.pack("<Ii", 0x1E3D4C55, -1), "no NORB matrix: -1 dimensions"),
        (norb_bytes(PAIRS)[:20], "cut short in its header"),
        (norb_bytes(PAIRS)[:-5], "cut short: 955 bytes of values, its header says 960"),
        (struct.pack("<Iiiii", 0x1E3D4C55, 1, -1, 1, 1), "cut short: 0 bytes of values"),
    ],
    ids=["empty", "packed", "big-endian", "many", "negative", "header", "short", "negative-size"],
)
def test_a_bad_norb_file_is_named(written, content, message):
    with pytest.raises(CapstextError, match=rf"x-dat\.mat: {message}"):
        read_norb_matrix(written("x-dat.mat", content))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((PAIRS, CATEGORIES[:5], INFO), r"dat\.mat has 6 images, but .*cat\.mat 5 rows"),
        ((PAIRS, CATEGORIES, INFO[:2]), r"dat\.mat has 6 images, but .*info\.mat 2 rows"),
        ((CATEGORIES, CATEGORIES, INFO), r"dat\.mat: holds int32 \(6,\), not pairs of images"),
        ((PAIRS, PAIRS, INFO), r"cat\.mat: holds uint8 .*, not a row of class numbers"),
        ((PAIRS, CATEGORIES, INFO[:, :3].copy()), r"info\.mat: holds int32 \(6, 3\), not four numbers"),
    ],
    ids=["cat-short", "info-short", "no-pairs", "no-categories", "no-info"],
)
def test_norb_files_that_do_not_belong_together_are_named(written, arrays, message):
    names = ("dat", "cat", "info")
    files = [written(f"{name}.mat", norb_bytes(array)) for name, array in zip(names, arrays, strict=True)]
    with pytest.raises(CapstextError, match=message):
        read_norb(*files)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"label_int": np.array([[1, 2]])}, r"test\.mat has 3 images, but its label_int, .* 2 rows"),
        ({"image": np.zeros((100, 3))}, r"image is \(100, 3\), not \[1600, number of images\]"),
        ({"image": np.full((1600, 3), 300.0)}, r"pixels of 300\.0 to 300\.0, not 0 to 255"),
        ({"image": np.full((1600, 3), np.nan)}, "pixels of nan to nan"),
        ({"label_int": np.array([["a", 1, 2]], dtype=object)}, "must hold numbers, not uint8 and object"),
    ],
    ids=["labels", "size", "range", "nan", "objects"],
)
def test_a_wrong_affnist_file_is_named(tmp_path, fields, message):
    path = write_affnist(tmp_path / "test.mat", TURNED, CODES[:3], **fields)
    with pytest.raises(CapstextError, match=message):
        read_affnist(path)


def test_files_that_are_not_affnist_are_named(tmp_path, written):
    from scipy.io import savemat

    savemat(tmp_path / "other.mat", {"affNISTdata": np.zeros(3)})
    with pytest.raises(CapstextError, match=r"other\.mat: no affNIST file"):
        read_affnist(tmp_path / "other.mat")
    whole = write_affnist(tmp_path / "whole.mat", TURNED, CODES[:3]).read_bytes()
    for content in (b"", b"hello", whole[:50], whole[: len(whole) // 2], whole[:-3]):
        with pytest.raises(CapstextError, match=r"cut\.mat: no MATLAB 5 file, or a broken one"):
            read_affnist(written("cut.mat", content))
    with pytest.raises(CapstextError, match=r"no such file: .*none\.mat"):
        read_affnist(tmp_path / "none.mat")
