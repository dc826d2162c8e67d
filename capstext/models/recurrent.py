"""Recurrent networks: embedded words in, log-odds a class out."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class RecurrentText(nn.Module):
    """An LSTM over the words (Hochreiter & Schmidhuber 1997), in both directions or one; then a linear layer.

    Both directions: Graves & Schmidhuber 2005. Pooling `last` takes the state after the last word of each
    direction, as the baselines of Tai et al. 2015 do; `max` the largest of each number over all words
    (Conneau et al. 2017, section 3.2). A text without words has the output's bias as log-odds.
    """

    def __init__(
        self,
        *,
        in_dim: int,
        classes: int,
        bidirectional: bool = False,
        hidden: int = 128,
        layers: int = 1,
        pooling: Literal["last", "max"] = "last",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.directions = 2 if bidirectional else 1
        self.recurrent = nn.LSTM(
            in_dim,
            hidden,
            num_layers=layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden * self.directions, classes)

    def forward(
        self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]
    ) -> Float[Tensor, "B classes"]:
        lengths = mask.sum(dim=1)
        # packing knows no empty text: it is given one word, whose features are taken away again
        packed = pack_padded_sequence(
            embedded, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, (last, _) = self.recurrent(packed)
        if self.pooling == "max":
            padded, _ = pad_packed_sequence(states, batch_first=True, padding_value=-torch.inf)
            features = padded.amax(dim=1)
        else:
            features = torch.cat(list(last[-self.directions :]), dim=-1)
        return self.output(self.dropout(features * (lengths > 0).unsqueeze(-1)))
