"""How the votes û_{j|i} of I children for J parents are held, and what a routing may ask of them.

Votes have children [..., I, d], the number of parents J, and activations [..., I] or None; a child of
activation 0 is padding and casts no vote. A routing asks them to
    combine          couplings [..., I, J]   ->  Σ_i c_ij û_{j|i}      [..., J, D]
    agree            poses [..., J, D]       ->  <û_{j|i}, v_j>        [..., I, J]
    total            weights [..., I]        ->  Σ_i w_i û_{j|i}       [..., J, D]
    attract          poses, softmax, weights ->  combine(w softmax(agree(poses)))
    square_distance  poses [..., J, D]       ->  |û_{j|i} - v_j|²      [..., I, J]
    built            the votes themselves                              [..., J, I, D]
`at_once` is how many numbers of votes may be built. Some steps replace the children by the same children, as
InBlocks explains.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from capstext.routing.attract import Attract
from capstext.routing.blocks import Total
from capstext.routing.softmax import Softmax


class Routed(NamedTuple):
    """The parents: their poses and how present each of them is."""

    poses: Float[Tensor, "*lead J D"]
    activation: Float[Tensor, "*lead J"]


def prepared(children: Tensor, activation: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Children in float32 or better, zero where the activation is 0."""
    if children.dim() < 2:
        raise ValueError(f"children must be [..., I, d], not {list(children.shape)}")
    if children.dtype in (torch.float16, torch.bfloat16):
        children = children.float()
    if activation is None:
        return children, None
    if activation.shape != children.shape[:-1]:
        raise ValueError(
            f"activation {list(activation.shape)} does not fit children {list(children.shape)}; "
            f"expected {list(children.shape[:-1])}"
        )
    real = (activation != 0).to(children.dtype)
    # Products, because `where` is five times slower on the CPU; the second one keeps gradients from padding.
    return children * real.unsqueeze(-1), activation.to(children.dtype) * real


class SharedVotes:
    """û_{j|i} = W_jᵀ u_i with one W_j for all children: never built whole. Zhao et al. 2018, section 2.3."""

    at_once = 1 << 20

    def __init__(
        self,
        *,
        children: Float[Tensor, "*lead I d"],
        weights: Float[Tensor, "..."],
        activation: Float[Tensor, "..."] | None = None,
    ) -> None:
        """Weights [J, d, D], activation [..., I]."""
        self.children, self.activation = prepared(children, activation)
        if weights.dim() != 3 or weights.shape[1] != children.shape[-1]:
            raise ValueError(
                f"weights {list(weights.shape)} do not fit children {list(children.shape)}; "
                f"expected [J, {children.shape[-1]}, D]"
            )
        self.weights = weights.to(self.children.dtype)
        self.parents = weights.shape[0]
        self.size = children.shape[-2] * self.parents * weights.shape[2]
        self.deviation: tuple[Tensor, Tensor] | None = None  # means last asked about, and what was answered
        self._built: Tensor | None = None
        self._centred: tuple[Tensor, Tensor, Tensor] | None = None

    def of(self, children: Tensor, activation: Tensor | None, weights: Tensor) -> "SharedVotes":
        """Votes of other children that are prepared already."""
        votes = SharedVotes(children=children, weights=weights)
        votes.activation = activation
        return votes

    def _transform(self, drawn: Float[Tensor, "*lead J d"]) -> Float[Tensor, "*lead J D"]:
        return torch.einsum("...jd,jde->...je", drawn, self.weights)

    def _keys(self, poses: Float[Tensor, "*lead J D"]) -> Float[Tensor, "*lead J d"]:
        return torch.einsum("...je,jde->...jd", poses, self.weights)

    def _spread(self, drawn: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead J D"]:
        """One vector transformed for every parent."""
        parents, inner, outer = self.weights.shape
        flat = self.weights.transpose(0, 1).reshape(inner, parents * outer)
        return (drawn @ flat).unflatten(-1, (parents, outer))

    @property
    def built(self) -> Float[Tensor, "*lead J I D"]:
        if self._built is None:
            self._built = self.children.unsqueeze(-3) @ self.weights
        return self._built

    def combine(self, coupling: Float[Tensor, "*lead I J"]) -> Float[Tensor, "*lead J D"]:
        """Σ_i c_ij û_{j|i} = W_jᵀ (Σ_i c_ij u_i)."""
        return self._transform(coupling.mT @ self.children)

    def agree(self, poses: Float[Tensor, "*lead J D"]) -> Float[Tensor, "*lead I J"]:
        """<û_{j|i}, v_j> = <u_i, W_j v_j>."""
        return self.children @ self._keys(poses).mT

    def total(self, weight: Float[Tensor, "*lead I"] | None = None) -> Float[Tensor, "*lead J D"]:
        """Σ_i w_i û_{j|i} = W_jᵀ (Σ_i w_i u_i)."""
        drawn, self.children = Total.apply(self.children, weight)
        return self._spread(drawn)

    def attract(
        self, poses: Float[Tensor, "*lead J D"], softmax: Softmax, weight: Float[Tensor, "*lead I"] | None
    ) -> Float[Tensor, "*lead J D"]:
        """Σ_i w_i softmax_j(<û_{j|i}, v_j>) û_{j|i}, couplings and votes never in memory."""
        shape = self.children.shape
        drawn, children = Attract.apply(
            self.children.reshape(-1, *shape[-2:]),
            poses.reshape(-1, *poses.shape[-2:]),
            self.weights,
            None if weight is None else weight.reshape(-1, weight.shape[-1]),
            softmax.flat(),
        )
        self.children = children.reshape(shape)
        return self._transform(drawn.reshape(*shape[:-2], *drawn.shape[-2:]))

    def _about_the_mean(self) -> tuple[Tensor, Tensor, Tensor]:
        """Children about their mean, the votes of that mean, and |û|² of the centred: less is cancelled."""
        if self._centred is None:
            centre = self.children.mean(dim=-2, keepdim=True)
            children = self.children - centre
            squares = self._spread(children).square().sum(dim=-1)
            self._centred = (children, self._spread(centre.squeeze(-2)), squares)
        return self._centred

    def square_distance(self, poses: Float[Tensor, "*lead J D"]) -> Float[Tensor, "*lead I J"]:
        """|û_{j|i} - v_j|² = |û|² - 2 <u_i, W_j v_j> + |v_j|², about the mean child."""
        children, centre, squares = self._about_the_mean()
        poses = poses - centre
        agreement = children @ self._keys(poses).mT
        return squares - 2 * agreement + poses.square().sum(dim=-1).unsqueeze(-2)


class FullVotes:
    """û_{j|i} = W_ijᵀ u_i with weights for every pair. Sabour et al. 2017, equation 2.

    Dynamic routing does without the votes; k-means and EM build them once.
    """

    at_once = 1 << 25

    def __init__(
        self,
        *,
        children: Float[Tensor, "*lead I d"],
        weights: Float[Tensor, "..."],
        activation: Float[Tensor, "..."] | None = None,
        rows: int = 1,
    ) -> None:
        """Weights [I, J, d, D], activation [..., I]; poses may be matrices of `rows` rows."""
        self.children, self.activation = prepared(children, activation)
        count, dim = children.shape[-2:]
        if weights.dim() != 4 or (weights.shape[0], weights.shape[2] * rows) != (count, dim):
            raise ValueError(
                f"weights {list(weights.shape)} do not fit children {list(children.shape)}; "
                f"expected [{count}, J, {dim // rows}, D]"
            )
        self.weights, self.rows = weights.to(self.children.dtype), rows
        self.parents = weights.shape[1]
        self.size = count * self.parents * rows * weights.shape[3]
        self.deviation: tuple[Tensor, Tensor] | None = None  # means last asked about, and what was answered
        self._built: Tensor | None = None
        self._turned: Tensor | None = None

    def of(self, children: Tensor, activation: Tensor | None, weights: Tensor) -> "FullVotes":
        """Votes of other children that are prepared already."""
        votes = FullVotes(children=children, weights=weights, rows=self.rows)
        votes.activation = activation
        return votes

    @property
    def built(self) -> Float[Tensor, "*lead J I D"]:
        if self._built is None:
            poses = self.children.unflatten(-1, (self.rows, -1))
            self._built = torch.einsum("...irk,ijke->...jire", poses, self.weights).flatten(-2)
        return self._built

    def combine(self, coupling: Float[Tensor, "*lead I J"]) -> Float[Tensor, "*lead J D"]:
        return (coupling.mT.unsqueeze(-2) @ self.built).squeeze(-2)

    def agree(self, poses: Float[Tensor, "*lead J D"]) -> Float[Tensor, "*lead I J"]:
        return (self.built @ poses.unsqueeze(-1)).squeeze(-1).mT

    def total(self, weight: Float[Tensor, "*lead I"] | None = None) -> Float[Tensor, "*lead J D"]:
        """Σ_i w_i W_ijᵀ u_i is one matmul: no vote is built."""
        children = self._by_rows if weight is None else self._by_rows * weight[..., None, :, None]
        parents, count, outer = self._by_parent.shape
        weights = self._by_parent.transpose(0, 1).reshape(count, parents * outer)
        drawn = children.flatten(-2) @ weights  # [..., rows, J * columns]
        return drawn.unflatten(-1, (parents, outer)).transpose(-3, -2).flatten(-2)

    def attract(
        self, poses: Float[Tensor, "*lead J D"], softmax: Softmax, weight: Float[Tensor, "*lead I"] | None
    ) -> Float[Tensor, "*lead J D"]:
        """Σ_i w_i softmax_j(<u_i, W_ij v_j>) W_ijᵀ u_i: two matmuls a parent, no vote is built."""
        children, weights = self._by_rows, self._by_parent
        lead = children.shape[:-2]
        keys = poses.unflatten(-1, (self.rows, -1)).movedim(-3, 0).flatten(1, -2) @ weights.mT
        keys = keys.unflatten(1, lead).unflatten(-1, children.shape[-2:])  # [J, ..., rows, I, k]
        agreement = (keys * children).sum(dim=(-3, -1))
        coupling = softmax(agreement.movedim(0, -2), dim=-2)
        coupling = coupling if weight is None else coupling * weight.unsqueeze(-2)
        shares = coupling.movedim(-2, 0)[..., None, :, None] * children
        drawn = shares.flatten(-2).flatten(1, -2) @ weights
        return drawn.unflatten(1, lead).movedim(0, -3).flatten(-2)

    @property
    def _by_rows(self) -> Float[Tensor, "*lead rows I k"]:
        return self.children.unflatten(-1, (self.rows, -1)).transpose(-3, -2)

    @property
    def _by_parent(self) -> Float[Tensor, "J inner columns"]:
        if self._turned is None:
            self._turned = self.weights.transpose(0, 1).flatten(1, 2)
        return self._turned

    def square_distance(self, poses: Float[Tensor, "*lead J D"]) -> Float[Tensor, "*lead I J"]:
        return (self.built - poses.unsqueeze(-2)).square().sum(dim=-1).mT


Votes = SharedVotes | FullVotes


def square_deviation(votes: Votes, mean: Float[Tensor, "*lead J D"]) -> Float[Tensor, "*lead J I D"]:
    """(û_{j|i} - m_j)² by component; the last answer is kept."""
    if votes.deviation is None or votes.deviation[0] is not mean:
        votes.deviation = (mean, (votes.built - mean.unsqueeze(-2)).square())
    return votes.deviation[1]
