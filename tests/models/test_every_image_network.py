"""Laws that hold for every image network by name."""

from typing import Any

import pytest
import torch
from image_networks import CASES, CLASSES, IDS, SHAPE_IDS, SHAPES, SMALL, digits, image_network, images

from capstext.losses import loss_by_name
from capstext.models.images import IMAGE_MODELS

every_network = pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)


def test_every_name_is_tested() -> None:
    assert set(SMALL) == set(IMAGE_MODELS)


@pytest.mark.parametrize("shape", SHAPES, ids=SHAPE_IDS)
@every_network
def test_images_of_any_size_have_finite_log_odds(
    name: str, options: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    network = image_network(name, shape, **options)
    for pixels in (images(2, shape), torch.zeros(2, *shape), torch.ones(2, *shape)):
        log_odds = network(pixels)
        assert log_odds.shape == (2, CLASSES)
        assert log_odds.isfinite().all()


@every_network
def test_a_batch_equals_its_items(name: str, options: dict[str, Any]) -> None:
    network = image_network(name, **options).eval()
    pixels = images(5)
    together = network(pixels)
    for row in range(5):
        torch.testing.assert_close(
            network(pixels[row : row + 1]), together[row : row + 1], atol=1e-4, rtol=1e-4
        )


@every_network
def test_every_parameter_gets_a_gradient(name: str, options: dict[str, Any]) -> None:
    network = image_network(name, **options)
    pixels, labels = digits(*range(8))
    if getattr(network, "decoder", None) is None:
        network(pixels)[:, 0].sum().backward()
    else:
        routed = network.capsules(pixels)
        (routed.activation[:, 0].sum() + network.decoder(routed.poses, labels.bool()).sum()).backward()
    for title, parameter in network.named_parameters():
        assert parameter.grad is not None, title
        assert parameter.grad.isfinite().all(), title
        assert parameter.grad.abs().max() > 0, title


@every_network
def test_eight_digits_are_learned_by_heart(name: str, options: dict[str, Any]) -> None:
    network = image_network(name, **options)
    pixels, labels = digits(*range(8))
    losses = {"capsnet": "margin", "capsnet-light": "margin", "matrix-capsules": "spread"}
    loss = loss_by_name(losses.get(name, "cross-entropy"), multi_label=False)
    optimiser = torch.optim.Adam(network.parameters(), lr=5e-3)
    for step in range(60):
        optimiser.zero_grad()
        loss(network(pixels), labels, progress=step / 60).backward()
        optimiser.step()
    network.eval()
    assert network(pixels).argmax(dim=-1).tolist() == list(range(8))


@every_network
def test_bfloat16_autocast_gives_finite_log_odds_and_gradients(name: str, options: dict[str, Any]) -> None:
    network = image_network(name, **options).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        log_odds = network(images(3))
    torch.testing.assert_close(log_odds.float().sigmoid(), network(images(3)).sigmoid(), atol=0.05, rtol=0.05)
    log_odds.float().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("capsnet", {}, "window 9 does not fit the 8 places that are left of the image"),
        ("capsnet", {"window": 5}, "window 5 does not fit the 4 places"),
        ("matrix-capsules", {}, "window 3 does not fit the 2 places"),
        ("matrix-capsules", {"kernel": 9}, "kernel 9 does not fit the 8 places"),
        (
            "matrix-capsules",
            {"windows": (3,)},
            "capsules, windows and strides must be as many, not 2, 1 and 2",
        ),
        ("matrix-capsules", {"side": 1}, "side must be at least 2, for two coordinates, not 1"),
        ("capsnet-light", {"dim": 9}, "dim 9 does not divide the last of the filters, 128"),
        ("capsnet-light", {"strides": (2,)}, "filters, kernels and strides must be as many, not 4, 4 and 1"),
        ("cnn-light", {"kernels": (4, 3, 3, 3)}, "kernels must be odd, not 4"),
        ("cnn-hinton", {"kernels": (5,)}, "filters and kernels must be as many, not 2 and 1"),
        ("cnn-hinton", {"pooling": 9}, "pooling 9 does not fit the 8 places"),
    ],
)
def test_sizes_that_do_not_fit_are_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        image_network(name, **options)
