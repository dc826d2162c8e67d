"""The known sets of images: names, sizes, where each is found or what it is made of. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass

from capstext.data.catalog import Hub


@dataclass(frozen=True, kw_only=True)
class KnownImages:
    """A set of images by name; `splits` gives the published number of images of each split."""

    name: str
    title: str
    source: str
    licence: str
    classes: tuple[str, ...]
    splits: Mapping[str, int]
    height: int
    width: int
    channels: int = 1
    multi_label: bool = False
    aliases: tuple[str, ...] = ()
    hub: Hub | None = None
    package: str | None = None  # the installed package that carries it
    made_from: str | None = None  # the known set that it is made from as it is loaded
    files: str = ""  # what its folder holds, where it is not on the hub
    note: str = ""

    @property
    def size(self) -> str:
        return f"{self.height}x{self.width}" + (f"x{self.channels}" if self.channels > 1 else "")


_DIGITS = tuple("0123456789")
_TRAIN_TEST = {"train": "train", "test": "test"}

_ALL = (
    KnownImages(
        name="digits",
        title="Handwritten digits of scikit-learn",
        source="Alpaydin and Kaynak 1998, Optical recognition of handwritten digits",
        licence="CC BY 4.0",
        classes=_DIGITS,
        splits={"train": 1438, "test": 359},
        height=8,
        width=8,
        package="scikit-learn",
        note="Needs no download. No official split: a fifth of every class is cut off for the test, seed 0.",
    ),
    KnownImages(
        name="mnist",
        title="Handwritten digits",
        source="LeCun et al. 1998, Gradient-based learning applied to document recognition",
        licence="MIT, as the hub states",
        classes=_DIGITS,
        splits={"train": 60000, "test": 10000},
        height=28,
        width=28,
        hub=Hub(
            id="ylecun/mnist",
            revision="77f3279092a1c1579b2250db8eafed0ad422088c",
            splits=_TRAIN_TEST,
        ),
    ),
    KnownImages(
        name="fashion_mnist",
        title="Pieces of clothing",
        aliases=("fashion-mnist",),
        source="Xiao et al. 2017, Fashion-MNIST",
        licence="MIT",
        classes=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        splits={"train": 60000, "test": 10000},
        height=28,
        width=28,
        hub=Hub(
            id="zalando-datasets/fashion_mnist",
            revision="531be5e2ccc9dba0c201ad3ae567a4f3d16ecdd2",
            splits=_TRAIN_TEST,
            renamed={"T - shirt / top": "T-shirt/top"},
        ),
    ),
    KnownImages(
        name="smallnorb",
        title="Stereo pairs of toys",
        aliases=("small-norb",),
        source="LeCun et al. 2004, Learning methods for generic object recognition",
        licence="research use only",
        classes=("animal", "human", "airplane", "truck", "car"),
        splits={"train": 24300, "test": 24300},
        height=48,
        width=48,
        channels=2,
        files="its *-training-dat.mat, *-training-cat.mat, *-testing-dat.mat and *-testing-cat.mat files",
        note="Published at 96x96; halved as Hinton et al. 2018 do. Test toys are not those of training.",
    ),
    KnownImages(
        name="affnist",
        title="MNIST digits under affine transformations",
        source="Tieleman 2013, The affNIST dataset for machine learning",
        licence="none stated",
        classes=_DIGITS,
        splits={"train": 1600000, "validation": 320000, "test": 320000},
        height=40,
        width=40,
        files="test.mat or test_batches/, and, if wanted, those of training and validation",
        note="For the test of models that were trained on shifted-mnist (Sabour et al. 2017, section 5.2).",
    ),
    KnownImages(
        name="shifted-mnist",
        title="MNIST digits anywhere in a larger image",
        aliases=("shifted_mnist",),
        source="Sabour et al. 2017, Dynamic routing between capsules, section 5.2",
        licence="as mnist",
        classes=_DIGITS,
        splits={"train": 60000, "test": 10000, "test_affine": 10000},
        height=40,
        width=40,
        made_from="mnist",
        note="test_affine: test digits turned, sheared, scaled and moved in the ranges of affNIST, by us; "
        "it stands in for affNIST, and its figures are not affNIST's.",
    ),
    KnownImages(
        name="multimnist",
        title="Two overlapping MNIST digits",
        aliases=("multi-mnist", "multi_mnist"),
        source="Sabour et al. 2017, Dynamic routing between capsules, section 6",
        licence="as mnist",
        classes=_DIGITS,
        splits={"train": 60000, "test": 10000},
        height=36,
        width=36,
        multi_label=True,
        made_from="mnist",
        note="One pair for each digit; the paper makes 1,000.",
    ),
)

IMAGE_DATASETS: Mapping[str, KnownImages] = {known.name: known for known in _ALL}
_NAMES: Mapping[str, KnownImages] = {name: known for known in _ALL for name in (known.name, *known.aliases)}


def known_images(name: str) -> KnownImages | None:
    """The set of images of that name or alias, in any case of letters."""
    return _NAMES.get(name.casefold())
