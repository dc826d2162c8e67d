"""From a network's log-odds to log-odds whose softmax (one label) or sigmoid (several) are probabilities."""

import torch
from torch import Tensor, nn
from torch.nn import functional

SCALE_BOUNDS = (0.05, 20.0)


class Calibration(nn.Module):
    """scale * log-odds + offset, and the class prior that answers a blank text.

    With one label only the scale is fitted (temperature scaling, Guo et al. 2017): it keeps the order of the
    classes, and a capsule's length of one half stays one half. With several labels each class gets an offset
    as well (Platt 1999, one slope for all).
    """

    scale: Tensor
    offset: Tensor
    prior: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("offset", torch.zeros(classes))
        self.register_buffer("prior", torch.zeros(classes))

    def forward(self, log_odds: Tensor) -> Tensor:
        return self.scale * log_odds.to(self.scale.dtype) + self.offset

    def fit_prior(self, counts: Tensor, rows: int, *, multi_label: bool) -> None:
        """Log-odds that read as the class frequencies in training, with one example more each (Laplace)."""
        if multi_label:
            frequency = (counts + 1.0) / (rows + 2.0)
            self.prior.copy_(frequency.logit())
        else:
            # the softmax reads them, so these are logarithms: the softmax of log-odds is not the frequency
            self.prior.copy_(((counts + 1.0) / (counts.sum() + len(counts))).log())

    def fit(self, log_odds: Tensor, targets: Tensor, *, multi_label: bool) -> None:
        """Least negative log-likelihood on validation rows, held back by a unit Gaussian around the identity.

        The penalty is nothing at the identity, so the likelihood cannot fall below that of the raw log-odds.
        """
        with torch.inference_mode(False), torch.enable_grad():
            log_odds = log_odds.detach().to("cpu", torch.float64, copy=True)
            targets = targets.detach().to("cpu", torch.float64, copy=True)
            finite = log_odds.isfinite().all(-1)
            if not finite.all():
                raise ValueError(
                    f"log-odds of {int((~finite).sum())} of {len(finite)} validation rows are not finite"
                )
            log_scale = torch.zeros((), dtype=torch.float64, requires_grad=True)
            offset = torch.zeros(log_odds.shape[-1], dtype=torch.float64, requires_grad=multi_label)
            parameters = [log_scale, offset] if multi_label else [log_scale]
            optimiser = torch.optim.LBFGS(parameters, max_iter=200, line_search_fn="strong_wolfe")

            def objective() -> Tensor:
                optimiser.zero_grad()
                scale = _bounded(log_scale)
                penalty = ((scale - 1).square() + offset.square().sum()) / 2
                total = surprise(scale * log_odds + offset, targets, multi_label=multi_label) + penalty
                # per row, so that the optimiser's tolerances mean the same for any number of rows
                mean: Tensor = total / max(len(targets), 1)
                mean.backward()
                return mean

            optimiser.step(objective)
        scale, offset = _bounded(log_scale.detach()), offset.detach()
        after = surprise(scale * log_odds + offset, targets, multi_label=multi_label)
        if after < surprise(log_odds, targets, multi_label=multi_label):
            self.scale.copy_(scale)
            self.offset.copy_(offset)
        else:
            self.scale.fill_(1.0)
            self.offset.zero_()


def surprise(log_odds: Tensor, targets: Tensor, *, multi_label: bool) -> Tensor:
    """Negative log-likelihood of all rows, summed."""
    if multi_label:
        return functional.binary_cross_entropy_with_logits(log_odds, targets, reduction="sum")
    return functional.cross_entropy(log_odds, targets, reduction="sum")


def _bounded(log_scale: Tensor) -> Tensor:
    return log_scale.exp().clamp(*SCALE_BOUNDS)
