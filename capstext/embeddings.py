"""What networks read: vectors [batch, length, dim] for ids and mask [batch, length], exactly zero where the
mask is False; numbers from 0 to 1 for pixels."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from capstext import augmentation
from capstext.data.image_files import Shape

MODES = ("random", "static", "non-static", "multichannel")

Ids = TypeVar("Ids", Tensor, NDArray[np.int64])


class Embedding(nn.Module):
    """What networks ask of the embedding of texts: the size of its vectors."""

    dim: int

    @property
    def sizes(self) -> dict[str, int]:
        """What a network is built for."""
        return {"in_dim": self.dim}


class Pixels(nn.Module):
    """Bytes become numbers from 0 to 1; in training, images are changed at random on the way.

    shift: pixels, Sabour et al. 2017, section 5. crop and contrast: Hinton et al. 2018, section 5.
    """

    def __init__(
        self,
        *,
        channels: int,
        height: int,
        width: int,
        shift: int = 0,
        rotation: float = 0.0,
        scaling: float = 0.0,
        crop: int | None = None,
        contrast: bool = False,
    ) -> None:
        super().__init__()
        self.shape = Shape(height, width, channels)
        self.shift, self.rotation, self.scaling = shift, rotation, scaling
        self.crop, self.contrast = crop, contrast

    @property
    def sizes(self) -> dict[str, int]:
        """What a network is built for."""
        height, width, channels = self.shape
        return {"channels": channels, "height": self.crop or height, "width": self.crop or width}

    def forward(self, pixels: UInt8[Tensor, "batch C H W"]) -> Float[Tensor, "batch C h w"]:
        images = pixels.float() / 255
        if self.training and (self.rotation or self.scaling):
            scale = (1 - self.scaling, 1 + self.scaling)
            images = augmentation.affine(images, rotation=self.rotation, shear=0.0, scale=scale)
        if self.training and self.shift:
            images = augmentation.shift(images, most=self.shift)
        if self.crop:
            cut = augmentation.crops if self.training else augmentation.centre_crop
            images = cut(images, size=self.crop)
        if self.training and self.contrast:
            images = augmentation.brightness_and_contrast(images)
        return images

    def description(self) -> dict[str, Any]:
        return {
            **self.shape._asdict(),
            "shift": self.shift,
            "rotation": self.rotation,
            "scaling": self.scaling,
            "crop": self.crop,
            "contrast": self.contrast,
        }


class WordEmbedding(Embedding):
    """Word vectors in one of four modes (Kim 2014, section 3.1); two channels stand side by side.

    Ids below `trained_words` are trained, unless the mode is static; later ones are words that the training
    texts lack, and keep their vectors. Without `vectors` a mode other than random waits for a state_dict.
    """

    def __init__(
        self,
        *,
        mode: str,
        words: int,
        dim: int,
        trained_words: int,
        vectors: Tensor | None = None,
        padding_id: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}; choose from: {', '.join(MODES)}")
        if not 0 <= padding_id < trained_words <= words:
            raise ValueError(
                f"need padding_id < trained_words <= words, found {padding_id}, {trained_words}, {words}"
            )
        if vectors is not None and (mode == "random" or vectors.shape != (words, dim)):
            raise ValueError(
                f"mode {mode} with {words} words of {dim} does not fit vectors {list(vectors.shape)}"
            )
        self.mode, self.words, self.word_dim, self.trained_words, self.padding_id = (
            mode,
            words,
            dim,
            trained_words,
            padding_id,
        )
        self.dim = 2 * dim if mode == "multichannel" else dim
        if vectors is None:
            vectors = (
                torch.empty(words, dim).uniform_(-0.25, 0.25) if mode == "random" else torch.zeros(words, dim)
            )
        vectors = vectors.detach().clone()
        vectors[padding_id] = 0
        self.trained = None if mode == "static" else nn.Parameter(vectors[:trained_words].clone())
        self.fixed: Tensor
        self.register_buffer("fixed", vectors[self._first_fixed :].clone())
        self.dropout = nn.Dropout(dropout)

    @property
    def _first_fixed(self) -> int:
        return 0 if self.mode in ("static", "multichannel") else self.trained_words

    def forward(
        self, ids: Int[Tensor, "batch length"], mask: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length dim"]:
        channels = {
            "random": self._trained,
            "static": self._static,
            "non-static": self._trained,
            "multichannel": lambda ids: torch.cat([self._static(ids), self._trained(ids)], dim=-1),
        }
        embedded = channels[self.mode](ids)
        return self.dropout(embedded.masked_fill(~mask.unsqueeze(-1), 0.0))

    def _static(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.fixed)

    def _trained(self, ids: Tensor) -> Tensor:
        trained, last = self.trained, self.trained_words - 1
        assert trained is not None
        vectors = functional.embedding(ids.clamp(max=last), trained, padding_idx=self.padding_id)
        if self.trained_words == self.words:
            return vectors
        fixed = functional.embedding((ids - self._first_fixed).clamp(min=0), self.fixed)
        return torch.where((ids > last).unsqueeze(-1), fixed, vectors)


class TokenIds(Embedding):
    """A token's number, one more than its id, as a vector of one: for networks that count words.

    Zero is no token, so that masking and erasing work as on vectors. Exact up to 2**24 words.
    """

    dim = 1

    @staticmethod
    def numbers(ids: Ids) -> Ids:
        return ids + 1

    def forward(
        self, ids: Int[Tensor, "batch length"], mask: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length 1"]:
        return (self.numbers(ids) * mask).unsqueeze(-1).float()


def initial_vectors(
    matrix: Float[Tensor, "words dim"], found: Bool[Tensor, " words"], *, unknown_id: int = 1, seed: int
) -> Float[Tensor, "words dim"]:
    """Fill rows without a vector: uniform, with the variance of the others (Kim 2014, section 3.3).

    The unknown word, which Kim has not, gets the mean of the others.
    """
    if not found.any():
        raise ValueError("no word has a vector")
    known = matrix[found]
    bound = float((3 * known.var(unbiased=False)).sqrt())
    random = torch.empty_like(matrix).uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))
    filled = torch.where(found.unsqueeze(-1), matrix, random)
    if not found[unknown_id]:
        filled[unknown_id] = known.mean(dim=0)
    return filled


def describe(embedding: nn.Module) -> dict[str, Any]:
    """All that `empty` needs, as JSON holds it."""
    if isinstance(embedding, WordEmbedding):
        return {
            "kind": "words",
            "mode": embedding.mode,
            "words": embedding.words,
            "dim": embedding.word_dim,
            "trained_words": embedding.trained_words,
            "padding_id": embedding.padding_id,
            "dropout": embedding.dropout.p,
        }
    if isinstance(embedding, TokenIds):
        return {"kind": "ids"}
    if isinstance(embedding, Pixels):
        return {"kind": "pixels", **embedding.description()}
    from capstext.encoders import TransformerEmbedding

    if isinstance(embedding, TransformerEmbedding):
        return {"kind": "transformer", **embedding.description()}
    raise ValueError(f"no description for an embedding of type {type(embedding).__name__}")


def empty(description: Mapping[str, Any]) -> Embedding | Pixels:
    """The embedding in shape, to be filled from a state_dict."""
    settings = dict(description)
    kind = settings.pop("kind", None)
    if kind == "words":
        return WordEmbedding(**settings)
    if kind == "ids":
        return TokenIds(**settings)
    if kind == "pixels":
        return Pixels(**settings)
    if kind == "transformer":
        from capstext.encoders import TransformerEmbedding

        return TransformerEmbedding(**settings)
    raise ValueError(f"unknown kind of embedding {kind!r}; choose from: words, ids, pixels, transformer")
