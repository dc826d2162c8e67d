"""The page reports/routing.md and its plots: how couplings settle, what leak and orphan take, what α does."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from capstext.capsules import ClassCapsules
from capstext.routing import ROUTINGS, FullVotes, SharedVotes, dynamic, routing_by_name
from capstext.routing.objectives import (
    agreement_loss,
    entropy,
    entropy_loss,
    k_means_loss,
    leak,
    most_entropy,
)
from capstext.routing.squash import unit
from capstext.routing.votes import Votes

CLASSES, SIGNAL, NOISE, DIM = 4, 12, 36, 8
ITERATIONS = 12


@dataclass(frozen=True)
class Share:
    """Where the children of trained class capsules go, on average: [signal, noise]."""

    title: str
    right_class: tuple[float, float]
    other_classes: tuple[float, float]
    orphan: tuple[float, float]
    leak: tuple[float, float]
    accuracy: float


def documents(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Made-up documents of 12 capsules near the prototype of a class and 36 of noise; and the classes."""
    fixed, random = torch.Generator().manual_seed(0), torch.Generator().manual_seed(seed)
    prototypes = unit(torch.randn(CLASSES, DIM, generator=fixed))
    labels = torch.randint(CLASSES, (count,), generator=random)
    signal = prototypes[labels].unsqueeze(1) + 0.3 * torch.randn(count, SIGNAL, DIM, generator=random)
    noise = torch.randn(count, NOISE, DIM, generator=random) * DIM**-0.5
    return torch.cat([signal, noise], dim=1), labels


def votes() -> SharedVotes:
    """Votes of 64 documents by random weights."""
    weights = torch.randn(CLASSES, DIM, DIM, generator=torch.Generator().manual_seed(1)) * 0.5
    return SharedVotes(children=documents(64, 2)[0], weights=weights)


def settling() -> dict[str, list[float]]:
    """The mean entropy of the couplings at every iteration, for every routing."""
    found = {}
    variants: dict[str, tuple[str, dict[str, Any]]] = {
        name: (name, {})
        for name in ROUTINGS
        if name != "static"  # which has nothing to settle
    }
    variants["k-means, Euclidean"] = ("k-means", {"distance": "euclidean"})
    for title, (name, options) in variants.items():
        record: list[Tensor] = []
        routing_by_name(name, iterations=ITERATIONS, **options)(votes(), training=False, record=record)
        found[title] = [entropy(coupling).mean().item() for coupling in record]
    return found


def alphas() -> dict[str, list[float]]:
    """The mean entropy at every iteration of regularised routing, for several α and decays."""
    found = {}
    for alpha, decay in ((2.0, 1.0), (1.0, 1.0), (1.0, 0.5), (0.3, 1.0), (0.1, 1.0)):
        record: list[Tensor] = []
        routing = routing_by_name("regularised", iterations=ITERATIONS, alpha=alpha, decay=decay)
        routing(votes(), training=False, record=record)
        found[f"α = {alpha:g}, times {decay:g}"] = [entropy(coupling).mean().item() for coupling in record]
    return found


def losses() -> dict[str, list[float]]:
    """What each routing descends, at every iteration, as a share of its first value's size."""
    given = votes()
    found: dict[str, list[float]] = {}
    for title, name, options in (
        ("regularised, α = 1", "regularised", {"decay": 1.0}),
        ("k-means, inner product", "k-means", {}),
        ("k-means, Euclidean", "k-means", {"distance": "euclidean"}),
    ):
        record: list[Tensor] = []
        routing_by_name(name, iterations=ITERATIONS, **options)(given, training=False, record=record)
        found[title] = []
        for coupling in record:
            drawn = given.combine(coupling)
            if name == "regularised":
                loss = entropy_loss(given, coupling, unit(drawn), 1.0)
            elif options:
                centres = drawn / coupling.sum(dim=-2).unsqueeze(-1)
                loss = k_means_loss(given, centres, distance="euclidean")
            else:
                loss = k_means_loss(given, unit(drawn))
            found[title].append(loss.mean().item())
    return {title: [value - line[0] for value in line] for title, line in found.items()}


def counter_example() -> list[float]:
    """The loss of dynamic routing on four children and two parents: it rises at the last step."""
    numbers = torch.tensor([[0.0, -4.0], [0.0, 1.0], [-3.0, -1.0], [6.0, -5.0]])
    small: Votes = FullVotes(children=torch.ones(4, 1), weights=numbers[:, :, None, None])
    record: list[Tensor] = []
    dynamic(small, iterations=5, record=record)
    line = []
    for before, coupling in zip([record[0], *record[:-1]], record, strict=True):
        drawn = small.combine(coupling)
        square = drawn.square().sum(dim=-1)
        line.append(agreement_loss(small, coupling, before, unit(drawn), square / (1 + square)).item())
    return line


def shares(steps: int = 150) -> list[Share]:
    """Train class capsules on made-up documents and see where signal and noise go."""
    return [
        _share(title, softmax, orphan, steps)
        for title, softmax, orphan in (
            ("plain", "plain", False),
            ("leaky", "leaky", False),
            ("orphan", "plain", True),
            ("both", "leaky", True),
        )
    ]


def _share(title: str, softmax: str, orphan: bool, steps: int) -> Share:
    torch.manual_seed(0)
    layer = ClassCapsules(
        in_dim=DIM,
        classes=CLASSES + orphan,
        out_dim=DIM,
        routing=routing_by_name("dynamic", softmax=softmax),
        children=SIGNAL + NOISE,
    )
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.01)
    for step in range(steps):
        children, labels = documents(32, 100 + step)
        _margin(layer(children).activation[:, :CLASSES], labels).backward()
        optimiser.step()
        optimiser.zero_grad()
    children, labels = documents(256, 5)
    record: list[Tensor] = []
    with torch.no_grad():
        activation = layer(children, None, record).activation[:, :CLASSES]
    coupling = record[-1]
    right = coupling.gather(2, labels[:, None, None].expand(-1, coupling.shape[1], 1)).squeeze(-1)
    taken = coupling[..., CLASSES:].sum(dim=-1)
    others = coupling[..., :CLASSES].sum(dim=-1) - right
    accuracy = (activation.argmax(dim=-1) == labels).float().mean().item()
    return Share(title, _two(right), _two(others), _two(taken), _two(leak(coupling)), accuracy)


def _margin(lengths: Tensor, labels: Tensor) -> Tensor:
    """Sabour et al. 2017, equation 4."""
    wanted = nn.functional.one_hot(labels, CLASSES)
    missing, extra = (0.9 - lengths).relu().square(), (lengths - 0.1).relu().square()
    return (wanted * missing + 0.5 * (1 - wanted) * extra).sum(dim=-1).mean()


def _two(share: Tensor) -> tuple[float, float]:
    """The mean over children of signal, and of noise."""
    return share[:, :SIGNAL].mean().item(), share[:, SIGNAL:].mean().item()


def write(folder: Path) -> Path:
    """Make `routing.md` and `routing/*.png` in the folder; the page's path is returned."""
    pictures = folder / "routing"
    pictures.mkdir(parents=True, exist_ok=True)
    bits, price, descent, taken = settling(), alphas(), losses(), shares()
    most = most_entropy(CLASSES)
    _plot(pictures / "settling.png", bits, "entropy of couplings", limit=most)
    _plot(pictures / "alpha.png", price, "entropy of couplings", limit=most)
    _plot(pictures / "loss.png", descent, "loss, less its first value")
    _plot(pictures / "counter-example.png", {"dynamic": counter_example()}, "loss of dynamic routing")
    _bars(pictures / "shares.png", taken)
    page = folder / "routing.md"
    page.write_text(_page(bits, price, taken, counter_example()), encoding="utf-8")
    return page


def _figure(path: Path, draw: Callable[[Any], None]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes)
    figure.savefig(path, metadata={"Software": None})


def _plot(path: Path, lines: dict[str, list[float]], quantity: str, limit: float | None = None) -> None:
    def draw(axes: Any) -> None:
        for title, line in lines.items():
            axes.plot(range(1, len(line) + 1), line, marker="o", markersize=3, label=title)
        if limit is not None:
            axes.axhline(limit, color="grey", linestyle=":", label="equal shares")
        axes.set_xlabel("iteration")
        axes.set_ylabel(quantity)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))

    _figure(path, draw)


def _bars(path: Path, found: list[Share]) -> None:
    def draw(axes: Any) -> None:
        labels = [f"{share.title}\n{kind}" for share in found for kind in ("signal", "noise")]
        bottom = [0.0] * len(labels)
        for name in ("right_class", "other_classes", "orphan", "leak"):
            heights = [value for share in found for value in getattr(share, name)]
            axes.bar(labels, heights, bottom=bottom, label=name.replace("_", " "))
            bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
        axes.set_ylabel("share of a child")
        axes.tick_params(axis="x", labelsize=7)
        axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    _figure(path, draw)


def _page(
    bits: dict[str, list[float]], price: dict[str, list[float]], taken: list[Share], risen: list[float]
) -> str:
    def line(title: str, values: list[float]) -> str:
        return f"| {title} | " + " | ".join(f"{values[step - 1]:.3f}" for step in (1, 2, 3, 5, 12)) + " |"

    head = "| | 1 | 2 | 3 | 5 | 12 |\n|---|---|---|---|---|---|\n"
    table = "\n".join(line(title, values) for title, values in bits.items())
    prices = "\n".join(line(title, values) for title, values in price.items())
    rows = "\n".join(
        f"| {share.title} | {share.right_class[0]:.2f} / {share.right_class[1]:.2f} "
        f"| {share.other_classes[0]:.2f} / {share.other_classes[1]:.2f} "
        f"| {share.orphan[0]:.2f} / {share.orphan[1]:.2f} | {share.leak[0]:.2f} / {share.leak[1]:.2f} "
        f"| {share.accuracy:.3f} |"
        for share in taken
    )
    return f"""# What routing does

Made by `capstext report routing`; nothing here is measured on real text. A made-up document has
{SIGNAL} capsules near the prototype of its class (of {CLASSES}) and {NOISE} of noise.

## How couplings settle

The entropy of a child's couplings, mean over children, at iterations 1 to 12; equal shares have
{most_entropy(CLASSES):.3f}. Dynamic routing adds agreement up, so it decides further with every iteration;
fixed-point and k-means routing come to rest.

![entropy of the couplings by iteration](routing/settling.png)

{head}{table}

## What leak and orphan take

Class capsules trained for 150 steps; then where a child goes, signal / noise. The leak is a parent of logit
0, the orphan a class capsule that no label ever asks for. Both take from the classes, but neither tells noise
from signal well here: what they take of noise is close to what they take of signal.

![shares of signal and noise](routing/shares.png)

| softmax | right class | other classes | orphan | leak | accuracy |
|---|---|---|---|---|---|
{rows}

## How α and iterations matter

Regularised routing pays α for every nat of decision: a large α keeps couplings equal, a small one decides at
once, a falling one begins soft and ends hard.

![entropy by α](routing/alpha.png)

{head}{prices}

## What is descended

Regularised (at constant α) and k-means routing never raise their loss; dynamic routing can. On four children
and two parents its loss is {", ".join(f"{value:.3f}" for value in risen)}:
the last step rises, because the factor n²/(1+n²) changes with the centres that it is a constant for.

![losses by iteration](routing/loss.png)
![dynamic routing's loss rises](routing/counter-example.png)
"""
