"""The LSTMs: torch's own on each text without its padding."""

import pytest
import torch
from networks import DIM, network, text
from torch import nn

LENGTHS = [1, 7, 3, 12]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("pooling", ["last", "max"])
@pytest.mark.parametrize("name", ["lstm", "bilstm"])
def test_a_text_in_a_batch_equals_torchs_lstm_on_it_alone(name: str, pooling: str, layers: int) -> None:
    model = network(name, pooling=pooling, layers=layers, hidden=6).eval()
    plain = nn.LSTM(DIM, 6, num_layers=layers, bidirectional=name == "bilstm")
    plain.load_state_dict(model.recurrent.state_dict())
    embedded, mask = text(*LENGTHS)
    log_odds = model(embedded, mask)
    for row, length in enumerate(LENGTHS):
        states, _ = plain(embedded[row, :length])  # [length, directions x 6]
        if pooling == "max":
            features = states.max(dim=0).values
        else:
            features = torch.cat([states[-1, :6], states[0, 6:]])
        torch.testing.assert_close(log_odds[row], model.output(features), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["last", "max"])
@pytest.mark.parametrize("name", ["lstm", "bilstm"])
def test_a_text_without_words_gets_the_bias(name: str, pooling: str) -> None:
    model = network(name, pooling=pooling).eval()
    assert torch.equal(model(*text(0, 4))[0], model.output.bias)


def test_both_directions_have_twice_the_weights_before_the_output() -> None:
    one, both = network("lstm"), network("bilstm")
    sizes = [sum(weight.numel() for weight in model.recurrent.parameters()) for model in (one, both)]
    assert sizes[1] == 2 * sizes[0]
    assert both.output.in_features == 2 * one.output.in_features
