"""A transformer's outputs as embeddings: fine-tuned, or frozen, computed once a text and kept on disk."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from capstext.caches import cache_folder
from capstext.embeddings import Embedding
from capstext.errors import CapstextError
from capstext.files import write_whole
from capstext.hub import pretrained_folder

TOKENS_PER_BATCH = 4096


class TransformerEmbedding(Embedding):
    """Last hidden states of a Hugging Face encoder; built from its config, to be filled from a state_dict."""

    def __init__(self, *, config: Mapping[str, Any], trained: bool, dropout: float = 0.0) -> None:
        super().__init__()
        from transformers import AutoConfig, AutoModel

        encoder = AutoModel.from_config(AutoConfig.for_model(**config))
        if hasattr(encoder, "pooler"):
            encoder.pooler = None
        self._take(encoder, trained=trained, dropout=dropout)

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str, revision: str | None = None, *, trained: bool, dropout: float = 0.0
    ) -> Self:
        embedding = cls.__new__(cls)
        nn.Module.__init__(embedding)
        embedding._take(
            load_encoder(pretrained_folder(name_or_folder, revision)), trained=trained, dropout=dropout
        )
        return embedding

    def _take(self, encoder: Any, *, trained: bool, dropout: float) -> None:
        self.encoder = encoder.requires_grad_(trained)
        self.trained = trained
        self.dim = int(encoder.config.hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.remembered: FrozenOutputs | None = None
        _keep_buffers(encoder)
        self.train(self.training)

    @property
    def max_length(self) -> int | None:
        """The most tokens that the encoder has positions for."""
        positions = getattr(self.encoder.config, "max_position_embeddings", None)
        reserved = (
            (self.encoder.config.pad_token_id or 0) + 1 if "roberta" in self.encoder.config.model_type else 0
        )
        return None if positions is None else int(positions) - reserved

    def description(self) -> dict[str, Any]:
        config = json.loads(self.encoder.config.to_json_string(use_diff=False))
        return {"config": config, "trained": self.trained, "dropout": self.dropout.p}

    def train(self, mode: bool = True) -> Self:
        """A frozen encoder never drops anything out."""
        super().train(mode)
        self.encoder.train(mode and self.trained)
        return self

    def forward(
        self, ids: Int[Tensor, "batch length"], mask: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length dim"]:
        known = None if self.remembered is None else self.remembered.batch(ids, mask)
        return self.dropout(self.encode(ids, mask) if known is None else known)

    def encode(
        self, ids: Int[Tensor, "batch length"], mask: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length dim"]:
        """The encoder's outputs, from the encoder itself."""
        if self.max_length is not None and ids.shape[1] > self.max_length:
            raise ValueError(f"{ids.shape[1]} tokens, and the encoder has positions for {self.max_length}")
        # A softmax over nothing is NaN: a text without tokens attends to its padding, which is then hidden.
        attended = mask | ~mask.any(dim=1, keepdim=True)
        with torch.set_grad_enabled(self.trained and torch.is_grad_enabled()):
            outputs = self.encoder(input_ids=ids, attention_mask=attended.long()).last_hidden_state
        return outputs.masked_fill(~mask.unsqueeze(-1), 0.0)

    def remember(
        self, texts: Sequence[Sequence[int]], *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Run the frozen encoder once over these token ids; then `forward` takes their outputs from disk."""
        if self.trained:
            raise ValueError("outputs of an encoder that is trained change, and cannot be kept")
        self.remembered = FrozenOutputs(self, texts, progress=progress)


def load_encoder(folder: Path, **changes: Any) -> Any:
    """The encoder of a Hugging Face folder, without a pooler, silently."""
    from transformers import AutoModel
    from transformers.utils import logging

    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        encoder = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True, **changes)
    except (OSError, ValueError, KeyError) as error:
        raise CapstextError(
            f"{folder}: not a model that loads: {str(error).strip().splitlines()[0]}"
        ) from None
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
    if hasattr(encoder, "pooler"):
        encoder.pooler = None
    return encoder.eval()


class FrozenOutputs:
    """Outputs for known texts: float16 rows of all tokens in one mapped file, found by a text's token ids."""

    def __init__(
        self,
        embedding: TransformerEmbedding,
        texts: Sequence[Sequence[int]],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        distinct = sorted({tuple(text) for text in texts if text}, key=lambda text: (len(text), text))
        self.dim = embedding.dim
        *starts, tokens = accumulate(map(len, distinct), initial=0)
        self.starts = dict(zip(map(_key, distinct), starts, strict=True))
        path = cache_folder() / f"frozen-{_fingerprint(embedding, distinct)}.npy"
        self.outputs = _mapped(path, tokens, self.dim)
        if self.outputs is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            needed, free = 2 * tokens * self.dim, shutil.disk_usage(path.parent).free
            if needed > free:
                raise CapstextError(
                    f"{path.parent}: the encoder's outputs need {needed >> 20} MB, {free >> 20} MB are free"
                )
            write_whole(path, lambda temporary: _compute(temporary, embedding, distinct, tokens, progress))
            self.outputs = _mapped(path, tokens, self.dim)

    def batch(self, ids: Tensor, mask: Tensor) -> Tensor | None:
        """Padded outputs, or None where a text of the batch is not known."""
        lengths = mask.sum(dim=1).tolist()
        keys = [_key(row[:length]) for row, length in zip(ids.tolist(), lengths, strict=True)]
        if any(key not in self.starts for key, length in zip(keys, lengths, strict=True) if length):
            return None
        assert self.outputs is not None
        padded = np.zeros((*ids.shape, self.dim), dtype=np.float32)
        for row, (key, length) in enumerate(zip(keys, lengths, strict=True)):
            if length:
                start = self.starts[key]
                padded[row, :length] = self.outputs[start : start + length]
        return torch.from_numpy(padded).to(ids.device)


def _compute(
    path: Path,
    embedding: TransformerEmbedding,
    texts: Sequence[tuple[int, ...]],
    tokens: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """`texts` come by rising length, so that a batch has next to no padding."""
    outputs = np.lib.format.open_memmap(path, "w+", np.float16, (tokens, embedding.dim))
    device = next(embedding.parameters()).device
    done = row = 0
    while row < len(texts):
        size = max(1, TOKENS_PER_BATCH // len(texts[row]))
        batch = texts[row : row + size]
        ids = pad_sequence([torch.tensor(text, device=device) for text in batch], batch_first=True)
        mask = pad_sequence([torch.ones(len(text), device=device) for text in batch], batch_first=True).bool()
        with torch.no_grad():
            states = embedding.encode(ids, mask)
        flat = states[mask].cpu().numpy()
        outputs[done : done + len(flat)] = flat
        done, row = done + len(flat), row + len(batch)
        if progress is not None:
            progress(row, len(texts))
    outputs.flush()


def _mapped(path: Path, tokens: int, dim: int) -> Any:
    try:
        outputs = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return None
    return outputs if outputs.shape == (tokens, dim) else None


def _key(text: Sequence[int]) -> bytes:
    return np.asarray(text, dtype=np.int32).tobytes()


def _fingerprint(embedding: TransformerEmbedding, texts: Sequence[tuple[int, ...]]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(embedding.encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    for text in texts:
        digest.update(_key(text) + b";")
    return digest.hexdigest()[:20]


def _keep_buffers(encoder: nn.Module) -> None:
    """Put the buffers that transformers leaves out into the state_dict: it alone fills an empty encoder."""
    for module in encoder.modules():
        module._non_persistent_buffers_set.clear()
