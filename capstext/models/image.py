"""An image classifier: pixels, a network on them, and a calibration of its log-odds."""

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn

from capstext.calibration import Calibration
from capstext.embeddings import Pixels
from capstext.models.capsnet import CapsuleNetwork
from capstext.models.decoder import Decoder, reconstruction_error


class ImageModel(nn.Module):
    """Bytes in, log-odds a class out; the same for capsules and baselines.

    `reconstruction` is the weight of the drawing's error. Sabour et al. 2017, section 4.1.
    """

    def __init__(
        self, *, embedding: Pixels, network: nn.Module, classes: int, reconstruction: float = 0.0
    ) -> None:
        super().__init__()
        self.reconstruction = reconstruction
        self.embedding = embedding
        self.network = network
        self.calibration = Calibration(classes)

    def forward(
        self,
        pixels: UInt8[Tensor, "batch C H W"],
        shown: Bool[Tensor, "batch parts classes"] | None = None,
        parts: UInt8[Tensor, "batch parts C H W"] | None = None,
    ) -> Float[Tensor, "batch classes"] | tuple[Float[Tensor, "batch classes"], Float[Tensor, ""]]:
        """Log-odds; with the class of each part of the image, also how badly its capsule draws it.

        An image without `parts` is one part, drawn whole.
        """
        network, decoder = self.network, self.decoder
        if shown is None or decoder is None or not self.reconstruction:
            return network(self.embedding(pixels))
        images, wanted = self._read(pixels, parts)
        assert isinstance(network, CapsuleNetwork)
        routed = network.capsules(images)
        poses = routed.poses.repeat_interleave(shown.shape[1], dim=0)
        drawn = decoder(poses, shown.flatten(0, 1))
        error = shown.shape[1] * reconstruction_error(drawn, wanted)
        return torch.logit(routed.activation, eps=1e-6), self.reconstruction * error

    @property
    def decoder(self) -> Decoder | None:
        """What draws the images again from their capsules, in networks that have it."""
        return self.network.decoder if isinstance(self.network, CapsuleNetwork) else None

    def calibrated(self, pixels: UInt8[Tensor, "batch C H W"]) -> Float[Tensor, "batch classes"]:
        """Log-odds whose softmax (or, with several labels an image, sigmoid) is a probability."""
        return self.calibration(self(pixels))

    def _read(self, pixels: Tensor, parts: Tensor | None) -> tuple[Tensor, Tensor]:
        """Images, and their parts [batch * parts, C, H, W], changed at random in the same way."""
        if parts is None:
            images = self.embedding(pixels)
            return images, images
        channels = pixels.shape[1]
        together = self.embedding(torch.cat([pixels, parts.flatten(1, 2)], dim=1))
        return together[:, :channels], together[:, channels:].reshape(-1, channels, *together.shape[2:])
