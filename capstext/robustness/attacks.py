"""Images [N, C, H, W] of numbers from 0 to 1, changed so that a model errs: by its gradients, or moved."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional

from capstext.augmentation import affine, centre_crop
from capstext.losses import Loss
from capstext.models.image import ImageModel

Gradient = Callable[[Tensor], Tensor]  # of a loss, by the pixels it is given

IN_BATCH = 250
STEPS = 10  # of BIM
STEP = 0.25  # the length of each, as a share of epsilon


def log_odds(model: ImageModel, images: Float[Tensor, "N C H W"]) -> Float[Tensor, "N classes"]:
    """What a model says of float images, any number of them."""
    with torch.inference_mode():
        return torch.cat([_answers(model, batch) for batch in images.split(IN_BATCH)])


def gradients(
    model: ImageModel,
    loss: Loss,
    images: Float[Tensor, "N C H W"],
    targets: Float[Tensor, "N classes"],
) -> Float[Tensor, "N C H W"]:
    """The gradient of the loss by each pixel; zero where it is not a number."""
    found = []
    for batch, wanted in zip(images.split(IN_BATCH), targets.split(IN_BATCH), strict=True):
        pixels = batch.detach().clone().requires_grad_()
        value = loss(_answers(model, pixels), wanted, progress=1.0)
        found.append(torch.autograd.grad(value, pixels)[0].nan_to_num(nan=0.0))
    return torch.cat(found)


def fgsm(
    images: Float[Tensor, "N C H W"], gradient: Float[Tensor, "N C H W"], *, epsilon: float
) -> Float[Tensor, "N C H W"]:
    """Every pixel by epsilon to where the loss rises. Goodfellow et al. 2015, section 4."""
    return (images + epsilon * gradient.sign()).clamp(0, 1)


def bim(
    images: Float[Tensor, "N C H W"], gradient: Gradient, *, epsilon: float, steps: int = STEPS
) -> Float[Tensor, "N C H W"]:
    """Small steps, each along a new gradient, never further than epsilon. Kurakin et al. 2017, section 2.2.

    They take steps of one grey level; a quarter of epsilon reaches as far whatever epsilon is.
    """
    low, high = (images - epsilon).clamp(min=0), (images + epsilon).clamp(max=1)
    changed = images
    for _ in range(steps):
        changed = (changed + STEP * epsilon * gradient(changed).sign()).clamp(low, high)
    return changed


def noise(
    images: Float[Tensor, "N C H W"], *, epsilon: float, generator: Generator
) -> Float[Tensor, "N C H W"]:
    """Every pixel by epsilon, up or down by chance: what an attack must beat."""
    signs = torch.randint(2, images.shape, generator=generator).to(images) * 2 - 1
    return fgsm(images, signs, epsilon=epsilon)


def moved(images: Float[Tensor, "N C H W"], *, by: int) -> list[Float[Tensor, "N C H W"]]:
    """The images so many pixels to the left, the right, up and down; zeros come in, what leaves is lost."""
    if not by:
        return [images] * 4
    paddings = ((-by, by, 0, 0), (by, -by, 0, 0), (0, 0, -by, by), (0, 0, by, -by))
    return [functional.pad(images, padding) for padding in paddings]


def turned(
    images: Float[Tensor, "N C H W"], *, share: float, generator: Generator
) -> Float[Tensor, "N C H W"]:
    """Each image under an affine transformation of its own, drawn from a share of affNIST's ranges."""
    return affine(
        images,
        rotation=20 * share,
        shear=0.2 * share,
        scale=(1 - 0.2 * share, 1 + 0.2 * share),
        generator=generator,
    )


def _answers(model: ImageModel, images: Tensor) -> Tensor:
    """All that follows the division of bytes by 255, as at a test; gradients reach the pixels."""
    if model.training:
        raise ValueError("the model is in training mode, where it changes its images at random")
    if model.embedding.crop:
        images = centre_crop(images, size=model.embedding.crop)
    return model.network(images).float()
