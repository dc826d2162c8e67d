"""Capsule layers: shapes, windows, padding, any routing and weights by name, a signal that arrives."""

import pytest
import torch
from torch import Tensor, nn

from capstext.capsules import (
    CapsuleSequence,
    ClassCapsules,
    ConvolutionalCapsules1d,
    ConvolutionalCapsules2d,
    PrimaryCapsules1d,
    PrimaryCapsules2d,
)
from capstext.routing import ROUTINGS, VOTES, routing_by_name
from capstext.routing.softmax import SOFTMAXES


class Text(nn.Module):
    """Primary, convolutional and class capsules in a row."""

    def __init__(
        self, name: str = "dynamic", weights: str = "shared", bias: bool = False, **options: object
    ) -> None:
        super().__init__()
        routing = routing_by_name(name, **options)
        self.primary = PrimaryCapsules1d(features=32, capsules=8, dim=16)
        self.middle = ConvolutionalCapsules1d(
            in_capsules=8,
            in_dim=16,
            out_capsules=8,
            out_dim=16,
            window=3,
            routing=routing,
            weights=weights,
            bias=bias,
        )
        self.classes = ClassCapsules(in_dim=16, classes=3, out_dim=16, routing=routing, children=20 * 8)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        return self.classes(*self.middle(self.primary(features, mask)).flat()).activation


def texts(lengths: list[int], width: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    return torch.randn(len(lengths), width, 32).relu() * mask.unsqueeze(-1), mask


@pytest.mark.parametrize("weights", VOTES)
@pytest.mark.parametrize("name", ROUTINGS)
def test_a_batch_equals_its_items_at_any_length(name: str, weights: str) -> None:
    lengths = [22, 5, 3, 2, 1]
    features, mask = texts(lengths, 22)
    model = Text(name, weights).eval()
    together = model(features, mask)
    for index, size in enumerate(lengths):
        alone = model(features[index : index + 1, :size], mask[index : index + 1, :size])
        torch.testing.assert_close(alone[0], together[index], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ROUTINGS)
def test_an_empty_text_has_no_class(name: str) -> None:
    features, mask = texts([0, 4], 6)
    scores = Text(name).eval()(features, mask)
    assert (scores[0] == 0).all()
    assert (scores[1] > 0).all()


@pytest.mark.parametrize("softmax", SOFTMAXES)
@pytest.mark.parametrize("weights", VOTES)
@pytest.mark.parametrize("name", ROUTINGS)
def test_every_parameter_gets_a_gradient(name: str, weights: str, softmax: str) -> None:
    features, mask = texts([12, 7], 12)
    model = Text(name, weights, bias=weights in ("shared", "full"), softmax=softmax)
    model(features, mask)[:, 0].sum().backward()
    for title, parameter in model.named_parameters():
        assert parameter.grad is not None, title
        assert parameter.grad.isfinite().all(), title
        assert parameter.grad.abs().max() > 0, title


@pytest.mark.parametrize("weights", ["shared", "full"])
@pytest.mark.parametrize("name", ["dynamic", "fixed-point", "k-means", "em", "static"])
def test_the_signal_reaches_the_class_capsules_at_initialisation(name: str, weights: str) -> None:
    features, mask = texts([22] * 4, 22)
    torch.manual_seed(0)
    model = Text(name, weights).eval()
    primary = model.primary(features, mask)
    middle = model.middle(primary)
    scores = model.classes(*middle.flat()).activation
    for activation in (primary.activation, middle.activation, scores):
        assert 0.1 < activation.mean() < 0.99
    assert scores.std() > 1e-4


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_windows_are_as_many_as_whole_windows_and_at_least_one(size: int) -> None:
    features, mask = texts([size, max(1, size - 4)], size)
    routing = routing_by_name("dynamic")
    layer = ConvolutionalCapsules1d(
        in_capsules=8, in_dim=16, out_capsules=5, out_dim=6, window=3, routing=routing
    )
    routed = layer(PrimaryCapsules1d(features=32, capsules=8, dim=16)(features, mask))
    assert isinstance(routed, CapsuleSequence)
    assert routed.poses.shape == (2, max(1, size - 2), 5, 6)
    assert routed.mask.sum(dim=1).tolist() == [max(1, size - 2), max(1, size - 6)]
    assert (routed.poses[~routed.mask] == 0).all()
    assert (routed.activation[~routed.mask] == 0).all()
    assert (routed.activation[routed.mask] > 0).all()


@pytest.mark.parametrize("weights", VOTES)
@pytest.mark.parametrize("name", ROUTINGS)
def test_images_are_routed_by_the_same_core(name: str, weights: str) -> None:
    routing = routing_by_name(name)
    primary = PrimaryCapsules2d(features=3, capsules=4, dim=16, window=3, stride=2)
    middle = ConvolutionalCapsules2d(
        in_capsules=4,
        in_dim=16,
        out_capsules=5,
        out_dim=16,
        window=3,
        stride=2,
        routing=routing,
        weights=weights,
    )
    classes = ClassCapsules(
        in_dim=16, classes=10, out_dim=16, routing=routing, children=2 * 2 * 5, weights=weights
    )
    image = primary(torch.randn(2, 3, 12, 13))
    assert image.poses.shape == (2, 5, 6, 4, 16)
    smaller = middle(image)
    assert smaller.poses.shape == (2, 2, 2, 5, 16)
    routed = classes(*smaller.flat())
    assert routed.poses.shape == (2, 10, 16)
    routed.activation.sum().backward()
    assert all(p.grad is not None for layer in (primary, middle, classes) for p in layer.parameters())


def test_class_capsules_show_their_couplings() -> None:
    record: list[Tensor] = []
    layer = ClassCapsules(in_dim=4, classes=3, out_dim=5, routing=routing_by_name("dynamic"))
    layer(torch.randn(2, 7, 4), torch.ones(2, 7), record)
    assert [couplings.shape for couplings in record] == [(2, 7, 3)] * 3


def test_a_bias_needs_plain_weights() -> None:
    with pytest.raises(ValueError, match="a bias needs weights 'shared' or 'full', not 'shared-matrix'"):
        Text(weights="shared-matrix", bias=True)


@pytest.mark.parametrize("name", ROUTINGS)
def test_layers_run_under_autocast_and_stay_in_float32(name: str) -> None:
    features, mask = texts([12, 7], 12)
    model = Text(name)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model(features, mask)
    assert scores.dtype == torch.float32
    scores.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
