"""How the children of the class capsules share themselves among the classes, place by place."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from capstext.capsules import ConvolutionalCapsules2d
from capstext.inside.examples import Network, Seen
from capstext.models.matrix_capsules import MatrixClassCapsules


class Couplings(NamedTuple):
    """Couplings of the last iteration, and how active the children are."""

    shares: Float[Tensor, "B H W capsules classes"]
    activation: Float[Tensor, "B H W capsules"]

    def toward(self, image: int, shown: int) -> Float[Tensor, "H W"]:
        """What part of its capsules, weighted by activation, each place gives to a class."""
        given = (self.shares[image, ..., shown] * self.activation[image]).sum(dim=-1)
        return given / self.activation[image].sum(dim=-1).clamp(min=1e-12)

    def weight(self, image: int) -> Float[Tensor, "H W"]:
        """How active the capsules of each place are, beside the most active place."""
        total = self.activation[image].sum(dim=-1)
        return total / total.max().clamp(min=1e-12)


class Lattice(NamedTuple):
    """Where places lie, in pixels: the centre of the first, the step to the next, and how much each sees."""

    start: float
    step: int
    field: int


@torch.no_grad()
def couplings(seen: Seen, rows: Sequence[int]) -> Couplings:
    """Sabour et al. 2017, procedure 1; for matrix capsules of the class layer alone."""
    voters = seen.network.voters(seen.images(rows))
    record: list[Tensor] = []
    seen.network.classes(*voters.flat(), record)
    return Couplings(record[-1].unflatten(1, voters.activation.shape[1:]), voters.activation)


def leaks(network: Network) -> bool:
    """Whether capsules may also give themselves to none of the classes."""
    layer = network.classes
    routing = layer.routing if isinstance(layer, MatrixClassCapsules) else layer.route.routing
    return str(routing.options.get("softmax", "")).startswith("leaky")


def lattice(network: Network) -> Lattice:
    """What the windows and strides of all layers before the class capsules come to."""
    start, step, field = 0.0, 1, 1
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            window, stride, padding = layer.kernel_size[0], layer.stride[0], layer.padding[0]
        elif isinstance(layer, ConvolutionalCapsules2d):
            window, stride, padding = layer.window, layer.stride, 0
        else:
            continue
        assert isinstance(padding, int)
        start += ((window - 1) / 2 - padding) * step
        field += (window - 1) * step
        step *= stride
    return Lattice(start, step, field)
