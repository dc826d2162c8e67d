"""Images in, class probabilities out: any number of images, in constant memory, in their order."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from capstext import runs
from capstext.classifier import Answer, labels, probabilities, refuse_no_numbers
from capstext.data.image_files import Conversions, fitted, read_pixels
from capstext.devices import resolve_device
from capstext.errors import CapstextError
from capstext.models.image import ImageModel

Item = TypeVar("Item")
Image = str | Path | NDArray[np.uint8]  # a PNG or JPEG file, or pixels [height, width] or [..., channels]

IN_BATCH = 128


class ImageClassifier:
    """A trained model, ready for images; those of another size or mode are fitted, and counted."""

    def __init__(self, run: runs.Run) -> None:
        if not isinstance(run.model, ImageModel):
            raise CapstextError(f"{run.folder}: its model reads texts; load it with Classifier")
        self.run, self.model = run, run.model
        self.classes, self.multi_label = run.classes, run.multi_label
        self.shape = run.model.embedding.shape
        self.device = run.model.calibration.prior.device
        self.conversions = Conversions()

    @classmethod
    def load(cls, run: str | Path, device: str = "auto") -> "ImageClassifier":
        """Read a run folder; `device` is auto, cpu or cuda."""
        return cls(runs.load(run, device=resolve_device(device)))

    def predict(self, images: Iterable[Image], *, threshold: float = 0.5) -> list[str] | list[list[str]]:
        """The label of each image; of a multi-label model all labels that score at least `threshold`."""
        scores = self.predict_proba(images)
        return labels(scores, self.classes, multi_label=self.multi_label, threshold=threshold)

    def predict_proba(self, images: Iterable[Image]) -> NDArray[np.float32]:
        """Probabilities [images, classes]; each row adds up to 1 unless the model is multi-label."""
        if isinstance(images, str | Path):
            raise TypeError("expected a list of images, found one; put it in a list")
        scores = [answer.scores for _, answer in self.stream(images, image=lambda image: image)]
        return np.stack(scores) if scores else np.empty((0, len(self.classes)), dtype=np.float32)

    def stream(
        self,
        items: Iterable[Item],
        *,
        image: Callable[[Item], Image],
        skipped: list[str] | None = None,
    ) -> Iterator[tuple[Item, Answer]]:
        """Each item with its answer, in order.

        An image that cannot be read ends it, after the answers to all before, or is noted in `skipped`.
        """
        fault: list[CapstextError] = []
        read = self._readable(items, image, fault, skipped)
        while batch := list(islice(read, IN_BATCH)):
            scores = self.score(np.stack([pixels for _, pixels in batch]))
            for (item, _), row in zip(batch, scores, strict=True):
                yield item, Answer(row, empty=False, cut=False, words=[])
        if fault:
            raise fault[0]

    def read(self, image: Image) -> NDArray[np.uint8]:
        """Pixels [height, width, channels] as the model takes them."""
        pixels = np.asarray(image) if not isinstance(image, str | Path) else read_pixels(image)
        if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
            raise TypeError(f"expected bytes [height, width, channels], found {pixels.dtype} {pixels.shape}")
        place = str(image) if isinstance(image, str | Path) else "an array"
        pixels = pixels if pixels.ndim == 3 else pixels[..., None]
        return fitted(pixels[None], self.shape, place=place, conversions=self.conversions)[0]

    def score(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Probabilities [images, classes] of images [images, height, width, channels] of the right shape."""
        channels_first = torch.from_numpy(np.ascontiguousarray(np.moveaxis(pixels, -1, 1))).to(self.device)
        with torch.inference_mode():
            scores = probabilities(self.model.calibrated(channels_first), multi_label=self.multi_label)
        refuse_no_numbers(scores, self.run.folder)
        return scores

    def _readable(
        self,
        items: Iterable[Item],
        image: Callable[[Item], Image],
        fault: list[CapstextError],
        skipped: list[str] | None,
    ) -> Iterator[tuple[Item, NDArray[np.uint8]]]:
        for item in items:
            try:
                pixels = self.read(image(item))
            except CapstextError as error:
                if skipped is None:
                    fault.append(error)
                    return
                skipped.append(str(error))
            else:
                yield item, pixels
