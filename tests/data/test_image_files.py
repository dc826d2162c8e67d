import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from capstext.data.image_files import Conversions, Shape, decode_image, fitted, images_in, read_image
from capstext.errors import CapstextError

COLOURS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def decoded(image: Image.Image, kind: str = "PNG", **options: object) -> np.ndarray:
    return decode_image(io.BytesIO(encoded(image, kind, **options)), place="here")


def saved(path: Path, pixels: np.ndarray) -> Path:
    Image.fromarray(pixels).save(path)
    return path


def test_a_png_is_read_as_it_is(tmp_path):
    path = saved(tmp_path / "a.png", COLOURS)
    conversions = Conversions()
    pixels = read_image(path, height=5, width=7, channels=3, conversions=conversions)
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, COLOURS)
    assert pixels.flags.writeable, "torch warns of tensors that share read-only arrays"
    assert conversions.notes() == []


@pytest.mark.parametrize(
    ("mode", "channels"), [("1", 1), ("L", 1), ("LA", 1), ("P", 3), ("RGB", 3), ("RGBA", 3)]
)
def test_every_mode_of_png_becomes_grey_or_colour(mode, channels):
    pixels = decoded(Image.fromarray(COLOURS).convert(mode))
    assert pixels.shape == (5, 7, channels)
    assert pixels.dtype == np.uint8
    if mode in ("L", "LA"):
        np.testing.assert_array_equal(pixels[:, :, 0], np.asarray(Image.fromarray(COLOURS).convert("L")))


def test_sixteen_bits_are_scaled_to_eight_not_clipped():
    shades = np.array([[0, 255, 256, 32768, 65535]], dtype=np.uint16)
    assert decoded(Image.fromarray(shades))[0, :, 0].tolist() == [0, 0, 1, 128, 255]


def test_transparent_parts_become_white_as_viewers_show_them():
    ink = np.zeros((2, 2, 4), dtype=np.uint8)  # black and transparent
    ink[0, 0] = (0, 0, 0, 255)
    assert decoded(Image.fromarray(ink))[:, :, 0].tolist() == [[0, 255], [255, 255]]
    grey = Image.fromarray(np.array([[9, 200]], dtype=np.uint8))
    assert decoded(grey, transparency=9)[0, :, 0].tolist() == [255, 200]


def test_a_photograph_is_turned_upright():
    exif = Image.Exif()
    exif[274] = 6  # the camera lay on its side
    photograph = Image.fromarray(np.tile(np.arange(0, 160, 20, dtype=np.uint8), (16, 1)))
    upright = decoded(photograph, "JPEG", exif=exif)
    assert upright.shape == (8, 16, 1)
    assert upright[-1].mean() > upright[0].mean() + 100


def test_size_and_mode_are_changed_and_counted(tmp_path):
    colour = saved(tmp_path / "colour.png", COLOURS)
    grey = saved(tmp_path / "grey.png", np.full((56, 28), 99, dtype=np.uint8))
    conversions = Conversions()
    first = read_image(colour, height=5, width=7, channels=1, conversions=conversions)
    np.testing.assert_array_equal(first[:, :, 0], np.asarray(Image.fromarray(COLOURS).convert("L")))
    second = read_image(grey, height=28, width=28, channels=3, conversions=conversions)
    assert second.shape == (28, 28, 3)
    assert (second == 99).all()
    assert conversions.notes() == [
        "1 × image scaled to the wanted size",
        "1 × colour image made grey",
        "1 × grey image given three channels",
    ]


def test_scaling_averages_rather_than_drops_pixels():
    stripes = np.zeros((1, 8, 8, 2), dtype=np.uint8)
    stripes[:, :, ::2] = 200
    small = fitted(stripes, Shape(2, 2, 2), place="here")
    assert small.shape == (1, 2, 2, 2)
    assert np.abs(small.astype(int) - 100).max() <= 15


def test_a_picture_is_no_stereo_pair(tmp_path):
    path = saved(tmp_path / "a.png", COLOURS)
    with pytest.raises(CapstextError, match=r"a\.png: images of 5x7 colour .* of 48x48, 2 channels"):
        read_image(path, height=48, width=48, channels=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "neither a PNG nor a JPEG"),
        (b"hello", "neither a PNG nor a JPEG"),
        (encoded(Image.fromarray(COLOURS), "BMP"), "neither a PNG nor a JPEG"),
        (encoded(Image.fromarray(COLOURS))[:60], "broken image"),
        (encoded(Image.fromarray(COLOURS), "JPEG")[:-200], "broken image"),
    ],
    ids=["empty", "text", "bmp", "cut-png", "cut-jpeg"],
)
def test_a_broken_image_is_named(tmp_path, content, message):
    path = tmp_path / "digit.png"
    path.write_bytes(content)
    with pytest.raises(CapstextError, match=rf"digit\.png: {message}"):
        read_image(path, height=5, width=7, channels=3)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(CapstextError, match=r"no such file: .*none\.png"):
        read_image(tmp_path / "none.png", height=5, width=7, channels=3)
    with pytest.raises(CapstextError, match="cannot be read: Is a directory"):
        read_image(tmp_path, height=5, width=7, channels=3)


def test_a_small_file_that_claims_to_be_huge_is_refused_unread():
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    for side in (10_000, 100_000):
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
        bomb = (
            b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
        )
        with pytest.raises(CapstextError, match="too many"):
            decode_image(io.BytesIO(bomb), place="bomb.png")


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_damage_anywhere_ends_in_an_image_or_in_one_line(kind):
    whole = encoded(Image.fromarray(COLOURS), kind)
    generator = np.random.default_rng(1)
    refusals = []
    for place in range(0, len(whole), 1 + len(whole) // 150):
        flipped = bytearray(whole)
        flipped[place] ^= int(generator.integers(1, 256))
        for damaged in (bytes(flipped), whole[:place]):
            try:
                assert decode_image(io.BytesIO(damaged), place="here").ndim == 3
            except CapstextError as error:
                refusals.append(str(error))
    assert len(refusals) > 50
    assert all(line.startswith("here: ") and "\n" not in line for line in refusals)


def test_images_of_a_folder_are_found_sorted_and_others_counted(tmp_path):
    for name in ("b/2.PNG", "a/1.jpeg", "b/1.jpg", "notes.txt", ".hidden.png", ".git/x.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found, ignored = images_in(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["a/1.jpeg", "b/1.jpg", "b/2.PNG"]
    assert ignored == 2
