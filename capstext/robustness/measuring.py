"""Runs go in; how often each is right when its test images are attacked, turned or moved comes out."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from capstext.errors import CapstextError
from capstext.losses import CrossEntropy, Loss, loss_by_name
from capstext.models import MODELS
from capstext.models.image import ImageModel
from capstext.robustness import attacks
from capstext.robustness.side_by_side import Images, grouped
from capstext.runs import Run

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)  # of a pixel's range, 0 to 1
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of affNIST's ranges
MOVES = (0, 1, 2, 3, 4)  # pixels
METHODS = ("fgsm", "bim")
BY_EPSILON = (*METHODS, "fgsm-own", "bim-own", "transfer-fgsm", "transfer-bim", "noise")
LEVELS: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys(("worst", *BY_EPSILON), EPSILONS),
    "affine": SHARES,
    "shift": MOVES,
}
SHOWN, SHOWN_EPSILONS = 5, (0.1, 0.2)  # of the picture


class Record(NamedTuple):
    """How often a run was right about each image at one level of one attack."""

    run: int
    attack: str  # clean, or one of LEVELS
    source: int | None  # the run whose gradients made the images
    level: float
    right: NDArray[np.int64]  # [images], so often out of `trials`
    trials: int

    @property
    def accuracy(self) -> float:
        return float(self.right.mean() / self.trials)


@dataclass(frozen=True)
class Measured:
    """All that the page tells."""

    images: Images
    seed: int
    runs: tuple[Run, ...]
    groups: Mapping[str, tuple[int, ...]]  # the runs of each model: seeds
    records: tuple[Record, ...]
    blind: Mapping[tuple[int, str], float]  # by run and loss: images where no pixel has a gradient
    ink: Mapping[int, float]  # by pixels moved: the share of all grey that stays in the images
    shown: NDArray[np.int64]  # rows of the images that the picture has
    adversarial: Mapping[tuple[int, float], Tensor]  # these images, by the run and epsilon that made them


def of_capsules(run: Run) -> bool:
    return "routing" in inspect.signature(MODELS[run.config.model.name]).parameters


def own_loss(run: Run) -> Loss:
    """What the run was trained with, at the end of its training; the error of drawings is left out."""
    return loss_by_name(run.config.loss.name, multi_label=False, **run.config.loss.options)


def measure(
    loaded: Sequence[Run], images: Images, *, seed: int, count: Callable[[int, int], None]
) -> Measured:
    """Attack every run with its own gradients and with those of all others; then turn and move the images."""
    notes = _Notes(loaded, images, count)
    for run in range(len(loaded)):
        notes.add(run, "clean", 0.0, [images.pixels])
    shown = _to_show([one.right for one in notes.records])
    for run in range(len(loaded)):
        for attack, level, changed in _unaimed(images.pixels, seed):
            notes.add(run, attack, level, changed)
    blind, adversarial = dict[tuple[int, str], float](), dict[tuple[int, float], Tensor]()
    for source, attacker in enumerate(loaded):
        plain, own = CrossEntropy(multi_label=False), own_loss(attacker)
        blind[source, "plain"], made = notes.attack(source, plain, keep=shown)
        adversarial |= {(source, epsilon): made[epsilon] for epsilon in SHOWN_EPSILONS}
        if own == plain:
            blind[source, "own"] = blind[source, "plain"]
            notes.repeat(source)
        else:
            blind[source, "own"], _ = notes.attack(source, own, keep=shown, ending="-own")
    grey = images.pixels.sum().item() or 1.0
    ink = {
        by: sum(one.sum().item() for one in attacks.moved(images.pixels, by=by)) / 4 / grey for by in MOVES
    }
    return Measured(
        images=images,
        seed=seed,
        runs=tuple(loaded),
        groups=grouped(loaded),
        records=(*notes.records, *_worst(notes.records, len(loaded))),
        blind=blind,
        ink=ink,
        shown=shown,
        adversarial=adversarial,
    )


class _Notes:
    """Attacks, and the records of them."""

    def __init__(self, loaded: Sequence[Run], images: Images, count: Callable[[int, int], None]) -> None:
        self.loaded, self.images, self.count = loaded, images, count
        self.done = 0
        self.models = [run.model for run in loaded if isinstance(run.model, ImageModel)]
        self.records: list[Record] = []

    def add(
        self, run: int, attack: str, level: float, changed: Sequence[Tensor], source: int | None = None
    ) -> None:
        answers = [attacks.log_odds(self.models[run], one) for one in changed]
        if not all(bool(one.isfinite().all()) for one in answers):
            raise CapstextError(f"{self.loaded[run].folder}: its answers are no numbers ({attack} {level:g})")
        right = torch.stack([one.argmax(dim=-1) == self.images.labels for one in answers]).sum(dim=0)
        self.records.append(Record(run, attack, source, level, right.cpu().numpy(), len(changed)))

    def attack(
        self, source: int, loss: Loss, *, keep: NDArray[np.int64], ending: str = ""
    ) -> tuple[float, dict[float, Tensor]]:
        """FGSM and BIM with a run's gradients; images of plain cross-entropy are shown to all runs.

        Returns the share of images without any gradient and, by epsilon, some of those that BIM made.
        """
        pixels = self.images.pixels

        def gradient(changed: Tensor) -> Tensor:
            return attacks.gradients(self.models[source], loss, changed, self.images.targets)

        first, kept = gradient(pixels), {}
        others = [run for run in range(len(self.loaded)) if run != source and not ending]
        for epsilon in EPSILONS:
            made = {
                "fgsm": attacks.fgsm(pixels, first, epsilon=epsilon),
                "bim": attacks.bim(pixels, gradient, epsilon=epsilon),
            }
            for method, changed in made.items():
                self.add(source, f"{method}{ending}", epsilon, [changed], source)
                for run in others:
                    self.add(run, f"transfer-{method}", epsilon, [changed], source)
            kept[epsilon] = made["bim"][torch.from_numpy(keep)]
            self._tick()
        return (first == 0).flatten(1).all(dim=1).float().mean().item(), kept

    def repeat(self, source: int) -> None:
        """A run that was trained on plain cross-entropy has that as its own loss."""
        same = [one for one in self.records if one.run == source and one.attack in METHODS]
        self.records += [one._replace(attack=f"{one.attack}-own") for one in same]
        self._tick(len(EPSILONS))

    def _tick(self, so_many: int = 1) -> None:
        self.done += so_many
        self.count(self.done, 2 * len(EPSILONS) * len(self.loaded))


def _unaimed(pixels: Tensor, seed: int) -> Iterator[tuple[str, float, list[Tensor]]]:
    """Changes that know no model; at every level the same draws, so that levels differ in size alone."""
    for epsilon in EPSILONS:
        yield "noise", epsilon, [attacks.noise(pixels, epsilon=epsilon, generator=_generator(seed))]
    for share in SHARES:
        yield "affine", share, [attacks.turned(pixels, share=share, generator=_generator(seed))]
    for by in MOVES:
        yield "shift", float(by), attacks.moved(pixels, by=by)


def _worst(records: Sequence[Record], count: int) -> Iterator[Record]:
    """Right where every attack of that epsilon fails, whoever made it: a stronger one may leave less."""
    for run in range(count):
        for epsilon in EPSILONS:
            right = [
                one.right
                for one in records
                if one.run == run and one.level == epsilon and one.attack in BY_EPSILON
            ]
            yield Record(run, "worst", None, epsilon, np.min(right, axis=0), 1)


def _to_show(right: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The first images that all runs know."""
    known = np.flatnonzero(np.all(right, axis=0))
    return known[:SHOWN] if len(known) else np.arange(min(SHOWN, len(right[0])))


def _generator(seed: int) -> Generator:
    return Generator().manual_seed(seed)
