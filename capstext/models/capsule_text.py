"""Capsule-A and Capsule-B of Zhao et al. 2018: embedded words in, log-odds a class out."""

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from capstext.capsules import CapsuleSequence, ClassCapsules, ConvolutionalCapsules1d, PrimaryCapsules1d
from capstext.models.ngrams import NgramConvolution
from capstext.routing import Routed, Routing
from capstext.routing.squash import length

# Root mean square of n-gram features at the start: what GloVe's vectors give with torch's weights. From it
# the lengths of primary, convolutional and class capsules begin at about .8, .8 and .4; random vectors
# are smaller, and without scaling nothing of them would reach the classes.
FEATURE_SIZE = 0.25


class CapsuleBranch(nn.Module):
    """N-grams, primary capsules, convolutional capsules, class capsules. Zhao et al. 2018, section 2."""

    def __init__(
        self,
        *,
        in_dim: int,
        ngram_size: int,
        stride: int,
        wide: bool,
        filters: int,
        primary_capsules: int,
        window: int,
        capsules: int,
        dim: int,
        classes: int,
        dropout: float,
        weights: str,
        bias: bool,
        routing: Routing,
    ) -> None:
        super().__init__()
        self.ngrams = NgramConvolution(
            in_dim=in_dim, filters=filters, size=ngram_size, stride=stride, wide=wide
        )
        self.dropout = nn.Dropout(dropout)
        squash = routing.options.get("squash", "sabour")
        self.primary = PrimaryCapsules1d(features=filters, capsules=primary_capsules, dim=dim, squash=squash)
        self.convolutional = ConvolutionalCapsules1d(
            in_capsules=primary_capsules,
            in_dim=dim,
            out_capsules=capsules,
            out_dim=dim,
            window=window,
            routing=routing,
            weights=weights,
            bias=bias,
        )
        self.classes = ClassCapsules(in_dim=dim, classes=classes, out_dim=dim, routing=routing)

    def capsules(self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]) -> CapsuleSequence:
        """The convolutional capsules: what the class capsules are routed from."""
        features, mask = self.ngrams(embedded, mask)
        return self.convolutional(self.primary(self.dropout(features), mask))

    def forward(self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]) -> Routed:
        return self.classes(*self.capsules(embedded, mask).flat())

    def scale_weights(self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]) -> None:
        """Give the n-gram features of these texts the size that the capsule layers' weights are made for."""
        features, places = self.ngrams(embedded, mask)
        size = features[places].square().mean().sqrt().clamp(min=1e-6)
        self.ngrams.convolution.weight *= FEATURE_SIZE / size
        if self.ngrams.convolution.bias is not None:
            self.ngrams.convolution.bias *= FEATURE_SIZE / size


class CapsuleText(nn.Module):
    """A branch for each n-gram size, their class capsules averaged. Zhao et al. 2018, figure 3.

    The orphan is one more class capsule, which takes what belongs to no class; it is never a prediction.
    """

    def __init__(
        self,
        *,
        in_dim: int,
        classes: int,
        routing: Routing,
        ngram_sizes: tuple[int, ...] = (3, 4, 5),
        stride: int = 1,
        wide: bool = True,
        filters: int = 128,
        primary_capsules: int = 16,
        window: int = 3,
        capsules: int = 16,
        dim: int = 16,
        orphan: bool = True,
        dropout: float = 0.0,
        weights: str = "shared",
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.classes = classes
        self.has_own_activations = routing.name == "em"  # elsewhere a capsule's activation is its length
        self.branches = nn.ModuleList(
            CapsuleBranch(
                in_dim=in_dim,
                ngram_size=size,
                stride=stride,
                wide=wide,
                filters=filters,
                primary_capsules=primary_capsules,
                window=window,
                capsules=capsules,
                dim=dim,
                classes=classes + orphan,
                dropout=dropout,
                weights=weights,
                bias=bias,
                routing=routing,
            )
            for size in ngram_sizes
        )

    @torch.no_grad()
    def scale_weights(self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]) -> None:
        """Let the signal of these texts reach the class capsules, whatever the size of their vectors."""
        for branch in self.branches:
            cast(CapsuleBranch, branch).scale_weights(embedded, mask)

    def forward(
        self, embedded: Float[Tensor, "B L E"], mask: Bool[Tensor, "B L"]
    ) -> Float[Tensor, "B classes"]:
        poses, activations = zip(*(branch(embedded, mask) for branch in self.branches), strict=True)
        if len(self.branches) == 1 or self.has_own_activations:
            activation = torch.stack(activations).mean(dim=0)
        else:
            activation = length(torch.stack(poses).mean(dim=0))
        return torch.logit(activation[:, : self.classes], eps=1e-6)
