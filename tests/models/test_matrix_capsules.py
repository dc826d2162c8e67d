"""Matrix capsules: the paper's sizes, coordinate addition, a start that passes the signal, no NaN."""

from typing import Any

import pytest
import torch
from image_networks import EM, MNIST, NORB, digits, image_network, images, parameters

from capstext.losses import loss_by_name
from capstext.models.matrix_capsules import MatrixClassCapsules
from capstext.routing import Routed, Votes, routing_by_name
from capstext.routing.windows import image_windows


def count(*, filters: int, primary: int, first: int, second: int) -> int:
    """Convolution, primary poses and activations, two layers of 3 x 3 windows, classes, 2 betas a parent."""
    convolution, places = 25 * 2 * filters + filters, 17 * primary * (filters + 1)
    votes = 16 * (9 * primary * first + 9 * first * second + second * 5)
    return convolution + places + votes + 2 * (first + second + 5)


def test_the_parameters_are_those_of_the_paper() -> None:
    """Hinton et al. 2018, table 1: 68K for A 64, B 8, C and D 16; about 310K where all are 32."""
    small = image_network("matrix-capsules", NORB, classes=5)
    large = image_network(
        "matrix-capsules", NORB, classes=5, filters=32, primary_capsules=32, capsules=(32, 32)
    )
    assert parameters(small) == count(filters=64, primary=8, first=16, second=16) == 68_754
    assert parameters(large) == count(filters=32, primary=32, first=32, second=32) == 317_194


def test_coordinates_are_added_to_the_last_column_of_the_votes() -> None:
    torch.manual_seed(0)
    layer = MatrixClassCapsules(in_capsules=2, side=4, down=2, across=3, classes=5, routing=EM)
    given = []
    children = torch.randn(1, 12, 16)

    def routing(votes: Votes, **learned: object) -> Routed:
        given.append(votes.built)
        return EM(votes, training=False)

    layer.routing = routing
    layer(children, torch.ones(1, 12))
    for place in range(6):
        for capsule in range(2):
            child = place * 2 + capsule
            vote = children[0, child].view(4, 4) @ layer.weights[capsule]  # [classes, 4, 4]
            vote[:, 0, 3] += (place // 3 + 0.5) / 2
            vote[:, 1, 3] += (place % 3 + 0.5) / 3
            torch.testing.assert_close(given[0][0, :, child], vote.flatten(-2), atol=1e-5, rtol=1e-5)


STARTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default": ({}, {}),
    "wide": (EM.options, {}),
    "steep": ({"iterations": 2, "floor": 10.0, "inverse_temperature": 100.0}, {}),
    "cost aR": ({"cost": "aR", "floor": 1.0}, {}),
    "normalised": (EM.options, {"normalised": True}),
}


@pytest.mark.parametrize("contrast", [1.0, 0.05], ids=["bright", "dim"])
@pytest.mark.parametrize("shape", [MNIST, NORB], ids=["28x28", "32x32x2"])
@pytest.mark.parametrize("start", STARTS)
def test_the_signal_reaches_the_class_capsules_at_initialisation(
    start: str, shape: tuple[int, int, int], contrast: float
) -> None:
    routing, options = STARTS[start]
    network = image_network("matrix-capsules", shape, routing=routing_by_name("em", **routing), **options)
    pixels = torch.nn.functional.interpolate(digits(*range(8))[0], shape[1:]).expand(-1, shape[0], -1, -1)
    pixels = pixels * contrast
    network.scale_weights(pixels)
    image = network.primary(network.features(pixels))
    assert 0.9 < image.poses.square().mean() < 1.1
    for layer in network.convolutional:
        votes = layer.route.votes(
            children=image_windows(image.poses, layer.window, layer.stride), weights=layer.route.weights
        )
        assert 0.7 < votes.built.square().mean() < 1.4
        image = layer(image)
        assert 0.3 < image.activation.mean() < 0.7
    activation = network.capsules(pixels).activation
    assert 0.3 < activation.mean() < 0.7
    # What tells one image from another; of dim ones the biases of the convolution are the larger part.
    assert activation.std(dim=0).mean() > (1e-2 if contrast == 1 or options else 1e-3)


def test_scaling_leaves_the_mode_as_it_was() -> None:
    network = image_network("matrix-capsules", MNIST, normalised=True).eval()
    network.scale_weights(images(4, MNIST))
    assert not any(module.training for module in network.modules())


def test_only_em_needs_scaling() -> None:
    network = image_network("matrix-capsules", MNIST, routing=routing_by_name("dynamic"))
    before = [parameter.clone() for parameter in network.parameters()]
    network.scale_weights(images(4, MNIST))
    assert all(torch.equal(*pair) for pair in zip(before, network.parameters(), strict=True))


@pytest.mark.parametrize("cost", ["r", "aR"])
def test_no_step_is_nan_even_at_a_large_learning_rate(cost: str) -> None:
    network = image_network(
        "matrix-capsules",
        routing=routing_by_name("em", cost=cost),
        filters=8,
        primary_capsules=2,
        kernel=3,
        stride=1,
        windows=(3, 2),
        capsules=(4, 4),
    )
    pixels, labels = images(4), torch.eye(10)[torch.arange(4)]
    loss = loss_by_name("spread", multi_label=False)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.3)
    for step in range(200):
        optimiser.zero_grad()
        loss(network(pixels), labels, progress=step / 200).backward()
        assert all(parameter.grad.isfinite().all() for parameter in network.parameters()), step
        optimiser.step()
    assert network(pixels).isfinite().all()


def test_other_routings_than_em_route_matrices() -> None:
    network = image_network("matrix-capsules", MNIST, routing=routing_by_name("dynamic"))
    activation = network.capsules(images(4, MNIST)).activation
    assert ((activation > 0) & (activation < 1)).all()
