"""A text classifier: an embedding, a network on the embedded words, and a calibration of its log-odds."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from capstext.calibration import Calibration


class TextModel(nn.Module):
    """Ids and mask in, log-odds a class out; the same for capsules and baselines."""

    def __init__(self, *, embedding: nn.Module, network: nn.Module, classes: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.network = network
        self.calibration = Calibration(classes)

    def forward(
        self, ids: Int[Tensor, "batch length"], mask: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch classes"]:
        """Log-odds as the network gives them: what the losses see."""
        return self.network(self.embedding(ids, mask), mask)

    def calibrated(
        self, ids: Int[Tensor, "batch length"], mask: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch classes"]:
        """Log-odds whose softmax (or, with several labels a text, sigmoid) is a probability to be trusted."""
        return self.calibration(self(ids, mask))
