"""Images made from single digits: two that overlap, and one anywhere in a larger image.

What is made depends on the seed and the index alone, never on the batch.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from capstext.data.image_corpora import ImageSplit, Parts

_GOLDEN, _FIRST, _SECOND = (
    np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_BLOCK = 10_000
_STEPS = 1 << 30


class MultiMnist:
    """Two digits of different classes, each shifted by up to `most` pixels. Sabour et al. 2017, section 6.

    Every digit begins `pairs` pairs; the first len(digits) items hold each of them once.
    """

    def __init__(self, *, digits: ImageSplit, seed: int, pairs: int = 1000, most: int = 4) -> None:
        self.digits, self.seed, self.pairs, self.most = digits, seed, pairs, most
        self._codes = digits.labels.argmax(axis=1)
        self._by_class = np.argsort(self._codes, kind="stable")
        self._counts = np.bincount(self._codes, minlength=digits.labels.shape[1])
        self._starts = np.cumsum(self._counts) - self._counts
        if self._counts.max(initial=0) == len(digits):
            raise ValueError("pairs of different classes need digits of two classes")

    def __len__(self) -> int:
        return len(self.digits) * self.pairs

    def batch(self, indices: NDArray[np.int64]) -> ImageSplit:
        """Pairs of digits, with the two digits of each alone."""
        indices = np.asarray(indices)
        if indices.size and not 0 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"indices {indices.min()} to {indices.max()} of {len(self):,} pairs")
        first = indices % len(self.digits)
        second = self._partner(first, indices)
        height, width = (side + 2 * self.most for side in self.digits.pixels.shape[1:3])
        parts = np.stack(
            [
                placed(
                    self.digits.pixels[chosen],
                    drawn(indices, seed=self.seed, draw=2 * number + 1, below=2 * self.most + 1),
                    drawn(indices, seed=self.seed, draw=2 * number + 2, below=2 * self.most + 1),
                    height=height,
                    width=width,
                )
                for number, chosen in enumerate((first, second))
            ],
            axis=1,
        )
        pixels = parts.sum(axis=1, dtype=np.uint16).clip(max=255).astype(np.uint8)
        labels = self.digits.labels[np.stack([first, second], axis=1)]
        return ImageSplit(pixels, labels[:, 0] | labels[:, 1], Parts(parts, labels))

    def first(self, count: int) -> ImageSplit:
        """The first `count` pairs, made at once."""
        made = [self.batch(indices) for indices in np.split(np.arange(count), range(_BLOCK, count, _BLOCK))]
        parts = [split.parts for split in made if split.parts is not None]
        return ImageSplit(
            np.concatenate([split.pixels for split in made]),
            np.concatenate([split.labels for split in made]),
            Parts(*(np.concatenate(column) for column in zip(*parts, strict=True))),
        )

    def _partner(self, first: NDArray[np.int64], indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """A digit of another class, each equally likely: the own class is stepped over."""
        own = self._codes[first]
        place = drawn(indices, seed=self.seed, draw=0, below=len(self.digits) - self._counts[own])
        return self._by_class[place + self._counts[own] * (place >= self._starts[own])]


def anywhere(digits: ImageSplit, *, size: int, seed: int) -> ImageSplit:
    """Each digit at a random place of a larger square. Sabour et al. 2017, section 5.2: 40 pixels."""
    rows = np.arange(len(digits))
    height, width = digits.pixels.shape[1:3]
    tops = drawn(rows, seed=seed, draw=0, below=size - height + 1)
    lefts = drawn(rows, seed=seed, draw=1, below=size - width + 1)
    return ImageSplit(placed(digits.pixels, tops, lefts, height=size, width=size), digits.labels)


def transformed(digits: ImageSplit, *, size: int, seed: int) -> ImageSplit:
    """Each digit under a small affine transformation, where all its ink is inside. After Tieleman 2013."""
    import torch

    from capstext.augmentation import affine

    generator = torch.Generator().manual_seed(seed)
    room = 2 * size - digits.pixels.shape[1] // 2 * 2
    made = np.empty((len(digits), size, size, digits.pixels.shape[3]), dtype=np.uint8)
    for start in range(0, len(digits), 1000):
        part = digits.pixels[start : start + 1000]
        rows = np.arange(start, start + len(part))
        border = (room - part.shape[1]) // 2, (room - part.shape[2]) // 2
        large = np.pad(part, ((0, 0), *((side, side) for side in border), (0, 0)))
        floats = torch.from_numpy(large).permute(0, 3, 1, 2).float() / 255
        turned = (affine(floats, generator=generator) * 255).round().byte().permute(0, 2, 3, 1).numpy()
        tops = _window(turned.max(axis=(2, 3)), size, drawn(rows, seed=seed, draw=0, below=_STEPS) / _STEPS)
        lefts = _window(turned.max(axis=(1, 3)), size, drawn(rows, seed=seed, draw=1, below=_STEPS) / _STEPS)
        windows = sliding_window_view(turned, (size, size), axis=(1, 2))
        made[rows] = np.moveaxis(windows[np.arange(len(part)), tops, lefts], 1, 3)
    return ImageSplit(made, digits.labels)


def placed(
    pixels: NDArray[np.uint8],
    tops: NDArray[np.int64],
    lefts: NDArray[np.int64],
    *,
    height: int,
    width: int,
) -> NDArray[np.uint8]:
    """Each image on black, its upper left corner at a place of its own."""
    canvas = np.zeros((len(pixels), height, width, pixels.shape[3]), dtype=np.uint8)
    windows = sliding_window_view(canvas, pixels.shape[1:3], axis=(1, 2), writeable=True)
    windows[np.arange(len(pixels)), tops, lefts] = np.moveaxis(pixels, 3, 1)
    return canvas


def drawn(
    indices: NDArray[np.int64], *, seed: int, draw: int, below: int | NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each index a number of its own in 0..below-1. Steele et al. 2014, SplitMix64, as a hash."""
    start = _mixed(np.array([seed], dtype=np.uint64) + _GOLDEN * np.array([draw + 1], dtype=np.uint64))
    mixed = _mixed(start + _GOLDEN * (indices.astype(np.uint64) + np.uint64(1)))
    return (mixed % np.asarray(below, dtype=np.uint64)).astype(np.int64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _window(ink: NDArray[np.uint8], size: int, share: NDArray[np.float64]) -> NDArray[np.int64]:
    """Where a window of `size` may begin so that all `ink` [N, side] is inside, at a `share` of the way."""
    side, inked = ink.shape[1], ink > 0
    begins, ends = inked.argmax(axis=1), side - inked[:, ::-1].argmax(axis=1)
    low, high = np.maximum(ends - size, 0), np.minimum(begins, side - size)
    return low + np.floor(share * (np.maximum(high - low, 0) + 1)).astype(np.int64)
