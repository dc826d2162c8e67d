"""PNG and JPEG files go in; uint8 arrays [height, width, channels] of the wanted shape come out."""

import os
import struct
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capstext.errors import CapstextError

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
MAX_PIXELS = 64_000_000  # larger ones are refused before they fill the memory

_FORMATS = ("PNG", "JPEG")
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I")
_RED, _GREEN, _BLUE = 19595, 38470, 7471  # ITU-R 601 luma in parts of 65,536


class Shape(NamedTuple):
    """What the images of a set have in common."""

    height: int
    width: int
    channels: int

    def __str__(self) -> str:
        return f"{self.height}x{self.width}" + {1: " grey", 3: " colour"}.get(
            self.channels, f", {self.channels} channels"
        )


@dataclass
class Conversions:
    """How many images were changed to fit, to be told once."""

    scaled: int = 0
    to_grey: int = 0
    to_colour: int = 0

    def notes(self) -> list[str]:
        told = {
            "image scaled to the wanted size": self.scaled,
            "colour image made grey": self.to_grey,
            "grey image given three channels": self.to_colour,
        }
        return [f"{count:,} × {what}" for what, count in told.items() if count]


def read_image(
    path: str | Path, *, height: int, width: int, channels: int, conversions: Conversions | None = None
) -> NDArray[np.uint8]:
    """One picture, scaled and converted to what a model takes; `conversions` counts what was changed."""
    shape = Shape(height, width, channels)
    return fitted(read_pixels(path)[None], shape, place=str(path), conversions=conversions)[0]


def read_pixels(path: str | Path) -> NDArray[np.uint8]:
    """One picture as it is: [height, width, 1 or 3]."""
    try:
        with open(path, "rb") as file:
            return decode_image(file, place=str(path))
    except FileNotFoundError:
        raise CapstextError(f"no such file: {path}") from None
    except OSError as error:
        raise CapstextError(f"{path}: cannot be read: {error.strerror}") from error


def decode_image(file: BinaryIO, *, place: str) -> NDArray[np.uint8]:
    """A PNG or JPEG file as [height, width, 1 or 3]: upright, transparent parts on white, 8 bits."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # we have a limit of our own
            image: Image.Image = Image.open(file, formats=_FORMATS)
        if image.width * image.height > MAX_PIXELS:
            raise CapstextError(f"{place}: {image.height}x{image.width} pixels are too many to be read")
        image.load()
        if image.format == "JPEG":
            image = ImageOps.exif_transpose(image)
        pixels = _eight_bits(image)
    except UnidentifiedImageError:
        raise CapstextError(f"{place}: neither a PNG nor a JPEG image, or its beginning is broken") from None
    except Image.DecompressionBombError:
        raise CapstextError(f"{place}: too many pixels to be read") from None
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        raise CapstextError(f"{place}: broken image: {error}") from error
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def fitted(
    pixels: NDArray[np.uint8], shape: Shape, *, place: str, conversions: Conversions | None = None
) -> NDArray[np.uint8]:
    """Images [N, H, W, C] scaled (bilinear, sides independent) and converted between grey and colour."""
    conversions = Conversions() if conversions is None else conversions
    found = Shape(*pixels.shape[1:])
    if {found.channels, shape.channels} == {1, 3}:
        conversions.to_grey += len(pixels) * (shape.channels == 1)
        conversions.to_colour += len(pixels) * (shape.channels == 3)
        pixels = _grey(pixels) if shape.channels == 1 else pixels.repeat(3, axis=3)
    elif found.channels != shape.channels:
        raise CapstextError(f"{place}: images of {found} cannot be made into images of {shape}")
    if (found.height, found.width) != (shape.height, shape.width):
        conversions.scaled += len(pixels)
        pixels = _scaled(pixels, shape)
    return pixels


def images_in(folder: Path) -> tuple[list[Path], int]:
    """The PNG and JPEG files under a folder, sorted by relative path, and the number of other files."""
    images, ignored = [], 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if name.startswith(".") or Path(name).suffix.lower() not in IMAGE_SUFFIXES:
                ignored += 1
            else:
                images.append(Path(parent, name))
    return sorted(images, key=lambda path: path.relative_to(folder).as_posix()), ignored


def _eight_bits(image: "Image") -> NDArray[np.uint8]:
    from PIL import Image

    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return np.array(image)
    if image.mode in _SIXTEEN_BITS:
        return (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
    if image.has_transparency_data:
        grey = image.mode in ("L", "LA", "La")
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        return np.array(image.convert("L" if grey else "RGB"))
    return np.array(image.convert("L" if image.mode == "1" else "RGB"))


def _grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    weighed = pixels.astype(np.uint32) @ np.array([_RED, _GREEN, _BLUE], dtype=np.uint32)
    return ((weighed + 0x8000) >> 16).astype(np.uint8)[..., None]


def _scaled(pixels: NDArray[np.uint8], shape: Shape) -> NDArray[np.uint8]:
    from PIL import Image

    scaled = np.empty((len(pixels), *shape), dtype=np.uint8)
    for image, target in zip(pixels, scaled, strict=True):
        for channel in range(shape.channels):
            plane = Image.fromarray(np.ascontiguousarray(image[:, :, channel]))
            resized = plane.resize((shape.width, shape.height), Image.Resampling.BILINEAR)
            target[:, :, channel] = np.asarray(resized)
    return scaled
