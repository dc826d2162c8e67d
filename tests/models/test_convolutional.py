"""The CNNs: what they compute, what they read, and the limit on their weights."""

import pytest
import torch
from networks import DIM, network, text


def strongest_by_hand(embedded: torch.Tensor, length: int, ngrams: torch.nn.Module) -> list[float]:
    """Kim 2014, equations 2 and 3 and the max over time, word by word."""
    weight, bias = ngrams.convolution.weight, ngrams.convolution.bias
    found = []
    for number in range(len(weight)):
        responses = []
        narrow = range(max(1, length - ngrams.size + 1))
        for start in range(1 - ngrams.size, length) if ngrams.wide else narrow:
            response = bias[number]
            for place in range(ngrams.size):
                if 0 <= start + place < length:
                    response = response + weight[number, :, place] @ embedded[start + place]
            responses.append(max(0.0, response.item()))
        found.append(max(responses))
    return found


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
def test_the_cnn_equals_a_slow_loop(wide: bool) -> None:
    model = network("cnn", filters=5, wide=wide).eval()
    embedded, mask = text(1, 2, 4, 11)
    log_odds = model(embedded, mask)
    for row, length in enumerate([1, 2, 4, 11]):
        features = [
            value for ngrams in model.ngrams for value in strongest_by_hand(embedded[row], length, ngrams)
        ]
        expected = model.output.weight @ torch.tensor(features) + model.output.bias
        torch.testing.assert_close(log_odds[row], expected, atol=1e-5, rtol=1e-5)


def test_a_text_without_words_gets_the_bias() -> None:
    model = network("cnn").eval()
    assert torch.equal(model(*text(0, 4))[0], model.output.bias)


def test_channels_side_by_side_can_be_those_of_kim() -> None:
    """Equal filters on both halves give what one filter gives for the sum of the channels."""
    model = network("cnn", ngram_sizes=[3], wide=False).eval()
    convolution = model.ngrams[0].convolution
    half = DIM // 2
    with torch.no_grad():
        convolution.weight[:, half:] = convolution.weight[:, :half]
    embedded, mask = text(4, 9)
    added = embedded[..., :half] + embedded[..., half:]
    responses = torch.nn.functional.conv1d(added.mT, convolution.weight[:, :half], convolution.bias)
    features, _ = model.ngrams[0](embedded, mask)
    torch.testing.assert_close(features, responses.relu().mT, atol=1e-5, rtol=1e-5)


def test_the_limit_shortens_long_rows_and_leaves_short_ones() -> None:
    model = network("cnn", norm_limit=1.5)
    with torch.no_grad():
        model.output.weight[0] *= 100
        before = model.output.weight.clone()
    model.constrain()
    after = model.output.weight
    torch.testing.assert_close(after[0].norm().item(), 1.5)
    torch.testing.assert_close(after[0] / after[0].norm(), before[0] / before[0].norm())
    assert torch.equal(after[1:], before[1:])
    free = network("cnn", norm_limit=None)
    with torch.no_grad():
        free.output.weight *= 100
        before = free.output.weight.clone()
    free.constrain()
    assert torch.equal(free.output.weight, before)


def test_the_cnn_of_the_release_keeps_features_by_their_places() -> None:
    model = network("cnn-release", positions=6, filters=4, hidden=7).eval()
    embedded, mask = text(2, 6, 9)
    log_odds = model(embedded, mask)
    for row in range(3):
        places = []
        for start in range(4):
            ngram = embedded[row, start : start + 3]
            places.append([max(0.0, (weight * ngram.mT).sum().item()) for weight in model.convolution.weight])
        features = torch.tensor(places).T.flatten()
        expected = model.output((model.hidden.weight @ features + model.hidden.bias).relu())
        torch.testing.assert_close(log_odds[row], expected, atol=1e-5, rtol=1e-5)


def test_the_cnn_of_the_release_reads_no_further_than_its_positions() -> None:
    model = network("cnn-release", positions=6).eval()
    embedded, mask = text(9, 9)
    changed = embedded.clone()
    changed[:, 6:] += 1.0
    assert torch.equal(model(embedded, mask), model(changed, mask))
    changed[:, 5] += 1.0
    assert not torch.equal(model(embedded, mask), model(changed, mask))
