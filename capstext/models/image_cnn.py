"""The convolutional networks beside the capsules: pixels in, log-odds a class out."""

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from capstext.models.image_features import ConvolutionStack, places


class ConvolutionalImage(nn.Module):
    """Convolutions that pad, each with max pooling or none, then dense layers, dropout before the last.

    The baselines of Sabour et al. 2017 (sections 5 and 6) and Hinton et al. 2018 (section 6), whose numbers
    of parameters tell that their convolutions pad.
    """

    def __init__(
        self,
        *,
        channels: int,
        height: int,
        width: int,
        classes: int,
        filters: tuple[int, ...] = (32, 64),
        kernels: tuple[int, ...] = (5, 5),
        pooling: int = 2,
        hidden: tuple[int, ...] = (1024,),
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if len(filters) != len(kernels):
            raise ValueError(f"filters and kernels must be as many, not {len(filters)} and {len(kernels)}")
        self.features = nn.Sequential()
        left = [height, width]
        for (before, after), kernel in zip(pairwise((channels, *filters)), kernels, strict=True):
            self.features += nn.Sequential(nn.Conv2d(before, after, kernel, padding="same"), nn.ReLU())
            if pooling > 1:
                left = [places(size, window=pooling, stride=pooling, name="pooling") for size in left]
                self.features.append(nn.MaxPool2d(pooling))
        sizes = (filters[-1] * left[0] * left[1], *hidden)
        dense = [part for size in pairwise(sizes) for part in (nn.Linear(*size), nn.ReLU())]
        self.dense = nn.Sequential(nn.Flatten(), *dense, nn.Dropout(dropout))
        self.output = nn.Linear(sizes[-1], classes)

    def forward(self, pixels: Float[Tensor, "B C H W"]) -> Float[Tensor, "B classes"]:
        return self.output(self.dense(self.features(pixels)))


class LightConvolutionalImage(nn.Module):
    """The light capsule network with plain units where it has capsules: as many numbers, no routing."""

    def __init__(
        self,
        *,
        channels: int,
        height: int,
        width: int,
        classes: int,
        filters: tuple[int, ...] = (32, 64, 128, 128),
        kernels: tuple[int, ...] = (5, 3, 3, 3),
        strides: tuple[int, ...] = (2, 1, 2, 1),
        window: int = 7,
        stride: int = 1,
        hidden: int = 160,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        stack = ConvolutionStack(channels=channels, filters=filters, kernels=kernels, strides=strides)
        left = stack.size(height), stack.size(width)
        window = min(window, *left)
        down, across = (places(size, window=window, stride=stride) for size in left)
        reading = nn.Conv2d(stack.filters, stack.filters, window, stride=stride, groups=stack.filters)
        self.features = nn.Sequential(stack, reading, nn.ReLU(), nn.Flatten())
        self.dense = nn.Sequential(
            nn.Linear(stack.filters * down * across, hidden), nn.ReLU(), nn.Dropout(dropout)
        )
        self.output = nn.Linear(hidden, classes)

    def forward(self, pixels: Float[Tensor, "B C H W"]) -> Float[Tensor, "B classes"]:
        return self.output(self.dense(self.features(pixels)))
