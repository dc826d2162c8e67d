"""Texts with their labels: what a cell or a column holds, as codes into names."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True, kw_only=True)
class LabelledTexts:
    """One split: texts, and all labels in one array of codes into `names`, `lengths` of them a row."""

    texts: "Dataset"
    codes: np.ndarray
    lengths: np.ndarray
    names: tuple[str, ...]
    ordered: bool  # the names come in an order that means something
    listed: bool
    file: str
    lines: np.ndarray | None = None

    def kept(self, keep: np.ndarray) -> "LabelledTexts":
        return replace(
            self,
            texts=self.texts.select(np.flatnonzero(keep)),
            codes=self.codes[np.repeat(keep, self.lengths)],
            lengths=self.lengths[keep],
            lines=None if self.lines is None else self.lines[keep],
        )

    def renamed(self, names: Mapping[str, str]) -> "LabelledTexts":
        return replace(self, names=tuple(names.get(name, name) for name in self.names))

    @property
    def has_several(self) -> bool:
        """Whether rows have several labels, or lists of none beside lists of one."""
        several = (self.lengths > 1).any()
        return bool(several or (self.listed and (self.lengths != 1).any() and self.lengths.any()))

    def place(self, row: int) -> str:
        return f"{self.file}, row {row + 1}" if self.lines is None else f"{self.file}:{self.lines[row]}"


def labels_in(value: Any, *, separated: bool) -> list[str]:
    """The labels of one cell: none, a name, a number, a list; in tables also `a|b`, `a;b` or a JSON list."""
    if isinstance(value, list | tuple):
        return list(dict.fromkeys(label for item in value for label in labels_in(item, separated=False)))
    if value is None or isinstance(value, dict):
        return []
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    if separated and text.startswith("["):
        with suppress(ValueError, RecursionError):
            return labels_in(json.loads(text), separated=False)
    if separated and (parts := re.split(r"[|;]", text))[1:]:
        return labels_in(parts, separated=False)
    return [text] if text else []


def labelled(rows: "Dataset", *, text_column: str, label_column: str, file: str) -> LabelledTexts:
    """Take a split's labels apart with Arrow; its texts stay where they are."""
    import datasets
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = rows.flatten_indices() if rows._indices is not None else rows
    feature = rows.features[label_column]
    labels = rows.data.column(label_column).combine_chunks()
    owners = np.arange(len(rows))
    if listed := isinstance(feature, datasets.List):
        feature = feature.feature
        owners = pc.list_parent_indices(labels).to_numpy()
        labels = pc.list_flatten(labels)
    if ordered := isinstance(feature, datasets.ClassLabel):
        names, codes = feature.names, labels
    else:
        trimmed = pc.utf8_trim_whitespace(labels.cast(pa.string()))
        encoded = pc.if_else(pc.equal(trimmed, ""), None, trimmed).dictionary_encode()
        names, codes = encoded.dictionary.to_pylist(), encoded.indices
    codes = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    real = codes >= 0
    return LabelledTexts(
        texts=_texts(rows, text_column),
        codes=codes[real],
        lengths=np.bincount(owners[real], minlength=len(rows)),
        names=tuple(names),
        ordered=ordered,
        listed=listed,
        file=file,
    )


def _texts(rows: "Dataset", column: str) -> "Dataset":
    import datasets

    texts = rows.select_columns([column]).rename_columns({column: "text"})
    if texts.features["text"] != datasets.Value("string"):
        texts = texts.cast_column("text", datasets.Value("string"))
    if texts.data.column("text").null_count:
        texts = texts.map(lambda batch: {"text": [text or "" for text in batch["text"]]}, batched=True)
    return texts
