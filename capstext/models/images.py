"""Image networks by name: pixels in 0 to 1 in, log-odds a class out."""

from collections.abc import Callable
from functools import partial

from torch import nn

from capstext.models.capsnet import capsnet, capsnet_light
from capstext.models.image_cnn import ConvolutionalImage, LightConvolutionalImage
from capstext.models.matrix_capsules import MatrixCapsules

IMAGE_MODELS: dict[str, Callable[..., nn.Module]] = {
    "capsnet": capsnet,
    "capsnet-light": capsnet_light,
    "matrix-capsules": MatrixCapsules,
    "cnn-sabour": partial(
        ConvolutionalImage, filters=(256, 256, 128), kernels=(5, 5, 5), pooling=1, hidden=(328, 192)
    ),
    "cnn-multimnist": partial(
        ConvolutionalImage, filters=(512, 256), kernels=(9, 5), pooling=2, hidden=(1024,), dropout=0.0
    ),
    "cnn-hinton": partial(
        ConvolutionalImage, filters=(32, 64), kernels=(5, 5), pooling=2, hidden=(1024,), dropout=0.5
    ),
    "cnn-light": LightConvolutionalImage,
}
