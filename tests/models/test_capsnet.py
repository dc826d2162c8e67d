"""CapsNet: the paper's sizes, what its class layer computes, sharing of weights, the decoder."""

import pytest
import torch
from image_networks import MNIST, OVERLAP, digits, image_network, images, parameters

from capstext.benchmarks import votes
from capstext.models.decoder import Decoder, most_active, reconstruction_error

CAPSNETS = ["capsnet", "capsnet-light"]


def test_the_parameters_are_those_of_the_paper() -> None:
    """Sabour et al. 2017: 8.2M, 6.8M without the decoder (section 5); 11.36M on MultiMNIST (section 6)."""
    convolution, primary, classes = 81 * 256 + 256, 81 * 256 * 256 + 256, 32 * 36 * 10 * 8 * 16
    decoder = (160 * 512 + 512) + (512 * 1024 + 1024) + (1024 * 784 + 784)
    assert (
        parameters(image_network("capsnet", MNIST)) == convolution + primary + classes + decoder == 8_215_568
    )
    assert parameters(image_network("capsnet", MNIST, decoder=None)) == 6_804_224
    assert parameters(image_network("capsnet", OVERLAP)) == 11_361_808


@pytest.mark.parametrize(("weights", "pairs"), [("full", 1152 * 10), ("positions", 32 * 10), ("shared", 10)])
def test_shared_weights_are_fewer(weights: str, pairs: int) -> None:
    network = image_network("capsnet", MNIST, weights=weights, decoder=None)
    assert parameters(network.classes) == pairs * 8 * 16


def test_the_light_network_is_light() -> None:
    assert 160_000 <= parameters(image_network("capsnet-light", MNIST)) <= 300_000


@pytest.mark.parametrize("written", votes.FULL)
def test_the_full_class_layer_equals_the_one_with_built_votes(written: str) -> None:
    network = image_network("capsnet", MNIST, decoder=None)
    children = network.primary(network.features(images(3, MNIST))).flat()
    assert children.poses.shape == (3, 1152, 8)
    weights = network.classes.route.weights
    ours, theirs = network.classes(*children).poses, votes.FULL[written](children.poses, weights)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    pull = torch.randn(ours.shape)
    (found,), (expected,) = (torch.autograd.grad(poses, weights, pull, True) for poses in (ours, theirs))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-3)


def test_weights_of_positions_are_full_weights_that_repeat() -> None:
    few = image_network("capsnet", weights="positions", filters=8, window=3, capsules=4)
    full = image_network("capsnet", weights="full", filters=8, window=3, capsules=4)
    tensors = few.state_dict()
    tensors["classes.route.weights"] = tensors["classes.route.weights"].repeat(4, 1, 1, 1)  # 2 x 2 places
    full.load_state_dict(tensors)
    assert torch.equal(few(images(3)), full(images(3)))


@pytest.mark.parametrize("weights", ["full", "positions", "shared"])
@pytest.mark.parametrize("name", CAPSNETS)
def test_the_signal_reaches_the_class_capsules_at_initialisation(name: str, weights: str) -> None:
    network = image_network(name, MNIST, weights=weights)
    pixels = torch.nn.functional.interpolate(digits(*range(8))[0], (28, 28))
    primary = network.primary(network.features(pixels))
    activation = network.capsules(pixels).activation
    assert 0.1 < primary.activation.mean() < 0.95
    assert 0.05 < activation.mean() < 0.98
    assert activation.std(dim=0).mean() > 1e-3


@pytest.mark.parametrize("name", CAPSNETS)
def test_log_odds_are_those_of_the_capsules_lengths(name: str) -> None:
    network = image_network(name, MNIST).eval()
    routed = network.capsules(images(3, MNIST))
    torch.testing.assert_close(routed.activation, routed.poses.norm(dim=-1))
    torch.testing.assert_close(network(images(3, MNIST)).sigmoid(), routed.activation)


def test_the_decoder_draws_only_what_is_chosen() -> None:
    torch.manual_seed(0)
    decoder = Decoder(classes=4, dim=5, channels=2, height=3, width=6, hidden=(7, 9))
    poses, chosen = (
        torch.randn(2, 4, 5),
        torch.tensor([[False, True, False, False], [True, False, True, False]]),
    )
    drawn = decoder(poses, chosen)
    assert drawn.shape == (2, 2, 3, 6)
    assert (drawn > 0).all()
    assert (drawn < 1).all()
    assert torch.equal(drawn, decoder(poses.masked_fill(~chosen.unsqueeze(-1), 9.0), chosen))
    assert not torch.equal(drawn, decoder(poses.masked_fill(chosen.unsqueeze(-1), 9.0), chosen))


def test_the_most_active_classes_are_chosen() -> None:
    activation = torch.tensor([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1]])
    assert most_active(activation).tolist() == [[False, True, False], [True, False, False]]
    assert most_active(activation, count=2).tolist() == [[False, True, True], [True, True, False]]


def test_the_error_of_a_drawing_is_a_sum_over_the_image_and_a_mean_over_the_batch() -> None:
    pixels = torch.zeros(2, 1, 2, 3)
    drawn = torch.tensor([0.5, 1.0]).view(2, 1, 1, 1).expand_as(pixels)
    assert reconstruction_error(drawn, pixels).item() == pytest.approx((6 * 0.25 + 6 * 1.0) / 2)


def test_the_decoder_learns_to_draw_digits() -> None:
    network = image_network("capsnet-light", decoder=(64, 64))
    pixels, labels = digits(*range(8))
    optimiser = torch.optim.Adam(network.parameters(), lr=5e-3)
    errors = []
    for _ in range(60):
        optimiser.zero_grad()
        error = reconstruction_error(network.decoder(network.capsules(pixels).poses, labels.bool()), pixels)
        error.backward()
        optimiser.step()
        errors.append(error.item())
    assert errors[-1] < errors[0] / 4
