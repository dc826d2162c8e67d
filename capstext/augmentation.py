"""Images of a batch changed at random, each in its own way: float pixels in 0..1 go in and come out."""

import math

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional


def shift(
    pixels: Float[Tensor, "B C H W"], *, most: int, generator: Generator | None = None
) -> Float[Tensor, "B C H W"]:
    """Move each image by up to `most` pixels each way, zeros come in. Sabour et al. 2017, section 5: two."""
    height, width = pixels.shape[-2:]
    return _windows(functional.pad(pixels, (most,) * 4), height, width, generator)


def crops(
    pixels: Float[Tensor, "B C H W"], *, size: int, generator: Generator | None = None
) -> Float[Tensor, "B C S S"]:
    """A square at a random place of each image. Hinton et al. 2018, section 5: 32 of 48 pixels."""
    _require_fitting(pixels, size)
    return _windows(pixels, size, size, generator)


def centre_crop(pixels: Float[Tensor, "B C H W"], *, size: int) -> Float[Tensor, "B C S S"]:
    """The square in the middle, which stands for the whole at the test. Hinton et al. 2018, section 5."""
    _require_fitting(pixels, size)
    top, left = ((side - size) // 2 for side in pixels.shape[-2:])
    return pixels[..., top : top + size, left : left + size]


def brightness_and_contrast(
    pixels: Float[Tensor, "B C H W"],
    *,
    brightness: float = 0.125,
    contrast: tuple[float, float] = (0.5, 1.5),
    generator: Generator | None = None,
) -> Float[Tensor, "B C H W"]:
    """Stretch each image about its mean, add a constant. Hinton et al. 2018, section 5, gives no ranges."""
    shape = (len(pixels), 1, 1, 1)
    mean = pixels.mean(dim=(1, 2, 3), keepdim=True)
    stretched = (pixels - mean) * _uniform(shape, *contrast, pixels, generator) + mean
    return (stretched + _uniform(shape, -brightness, brightness, pixels, generator)).clamp(0, 1)


def affine(
    pixels: Float[Tensor, "B C H W"],
    *,
    rotation: float = 20.0,
    shear: float = 0.2,
    scale: tuple[float, float] = (0.8, 1.2),
    translation: float = 0.0,
    generator: Generator | None = None,
) -> Float[Tensor, "B C H W"]:
    """Turn (degrees), shear, scale each side, move (pixels) about the centre; the ranges are affNIST's."""
    count, _, height, width = pixels.shape
    turns, shears, wider, higher, right, down = (
        _uniform((count,), low, high, pixels, generator)
        for low, high in (
            (-math.radians(rotation), math.radians(rotation)),
            (-shear, shear),
            scale,
            scale,
            (-translation, translation),
            (-translation, translation),
        )
    )
    one, zero = torch.ones_like(turns), torch.zeros_like(turns)
    turned = _matrices(turns.cos(), -turns.sin(), turns.sin(), turns.cos())
    changed = turned @ _matrices(one, shears, zero, one) @ _matrices(wider, zero, zero, higher)
    # grid_sample asks where a pixel comes from, in units of half the sides
    back = torch.linalg.inv(changed)
    sides = pixels.new_tensor([width / 2, height / 2])
    moved = back @ torch.stack([right, down], dim=-1)[..., None]
    theta = torch.cat([back * sides / sides[:, None], -moved / sides[:, None]], dim=-1)
    grid = functional.affine_grid(theta, list(pixels.shape), align_corners=False)
    return functional.grid_sample(pixels, grid, padding_mode="zeros", align_corners=False)


def _windows(pixels: Tensor, height: int, width: int, generator: Generator | None) -> Tensor:
    """A window of each image, at a place of its own."""
    count = len(pixels)
    places = pixels.unfold(2, height, 1).unfold(3, width, 1)  # [B, C, tops, lefts, height, width], a view
    tops, lefts = (
        torch.randint(places.shape[side], (count,), generator=generator, device=_device(pixels, generator))
        for side in (2, 3)
    )
    rows = torch.arange(count, device=pixels.device)
    return places[rows, :, tops.to(pixels.device), lefts.to(pixels.device)]


def _uniform(
    shape: tuple[int, ...], low: float, high: float, like: Tensor, generator: Generator | None
) -> Tensor:
    drawn = torch.rand(shape, generator=generator, device=_device(like, generator), dtype=like.dtype)
    return low + (high - low) * drawn.to(like.device)


def _device(pixels: Tensor, generator: Generator | None) -> torch.device:
    """Where to draw: a generator draws on its own device only."""
    return pixels.device if generator is None else generator.device


def _matrices(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return torch.stack([a, b, c, d], dim=-1).unflatten(-1, (2, 2))


def _require_fitting(pixels: Tensor, size: int) -> None:
    if size > min(pixels.shape[-2:]):
        raise ValueError(f"a crop of {size}x{size} does not fit into {pixels.shape[-2]}x{pixels.shape[-1]}")
