"""An image classifier: pixels, a network on them, and a calibration of its log-odds."""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from capstext.calibration import Calibration
from capstext.embeddings import Pixels
from capstext.models.decoder import reconstruction_error


class ImageModel(nn.Module):
    """Bytes in, log-odds a class out; the same for capsules and baselines.

    `reconstruction` is the weight of the drawing's error. Sabour et al. 2017, section 4.1.
    """

    def __init__(
        self, *, embedding: Pixels, network: nn.Module, classes: int, reconstruction: float = 0.0
    ) -> None:
        super().__init__()
        self.reconstruction = reconstruction if getattr(network, "decoder", None) is not None else 0.0
        self.embedding = embedding
        self.network = network
        self.calibration = Calibration(classes)

    def forward(
        self, pixels: UInt8[Tensor, "batch C H W"], targets: Float[Tensor, "batch classes"] | None = None
    ) -> Float[Tensor, "batch classes"] | tuple[Float[Tensor, "batch classes"], Float[Tensor, ""]]:
        """Log-odds; with `targets`, also how far the image is from what the true classes' capsules draw."""
        images = self.embedding(pixels)
        if targets is None or not self.reconstruction:
            return self.network(images)
        routed = self.network.capsules(images)
        drawn = self.network.decoder(routed.poses, targets.bool())
        return torch.logit(routed.activation, eps=1e-6), self.reconstruction * reconstruction_error(
            drawn, images
        )

    def calibrated(self, pixels: UInt8[Tensor, "batch C H W"]) -> Float[Tensor, "batch classes"]:
        """Log-odds whose softmax (or, with several labels an image, sigmoid) is a probability."""
        return self.calibration(self(pixels))
