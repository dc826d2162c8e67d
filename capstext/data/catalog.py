"""The known data sets: names, where each is found, how it is split, and on what terms. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Protocol = Literal["official", "folds"]


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A hub repository; `splits` maps our split names to its own, `renamed` its class names to ours."""

    id: str
    revision: str
    splits: Mapping[str, str]
    text_column: str = "text"
    label_column: str = "label"
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Package:
    """A table inside a pip package: the rows that have `value` in `column`, cut into splits by us."""

    name: str
    module: str
    file: str
    column: str
    value: str
    text_column: str
    label_column: str
    renamed: Mapping[str, str]
    validation: float
    test: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class KnownDataset:
    """A data set by name; `splits` gives the published number of rows of each split."""

    name: str
    title: str
    source: str
    licence: str
    language: str
    classes: tuple[str, ...]
    splits: Mapping[str, int]
    protocol: Protocol
    folds: int | None = None
    multi_label: bool = False
    aliases: tuple[str, ...] = ()
    extra_training: tuple[str, ...] = ()
    text_column: str = "text"
    label_column: str = "label"
    hub: Hub | None = None
    package: Package | None = None
    note: str = ""


_NEGATIVE_POSITIVE = ("neg", "pos")
_SENTIMENT = {"negative": "neg", "positive": "pos"}
_TRAIN_TEST = {"train": "train", "test": "test"}
_TRAIN_VALIDATION_TEST = {"train": "train", "validation": "validation", "test": "test"}
_REUTERS_90 = (
    *("acq", "alum", "barley", "bop", "carcass", "castor-oil", "cocoa", "coconut", "coconut-oil", "coffee"),
    *("copper", "copra-cake", "corn", "cotton", "cotton-oil", "cpi", "cpu", "crude", "dfl", "dlr", "dmk"),
    *("earn", "fuel", "gas", "gnp", "gold", "grain", "groundnut", "groundnut-oil", "heat", "hog", "housing"),
    *("income", "instal-debt", "interest", "ipi", "iron-steel", "jet", "jobs", "l-cattle", "lead", "lei"),
    *("lin-oil", "livestock", "lumber", "meal-feed", "money-fx", "money-supply", "naphtha", "nat-gas"),
    *("nickel", "nkr", "nzdlr", "oat", "oilseed", "orange", "palladium", "palm-oil", "palmkernel"),
    *("pet-chem", "platinum", "potato", "propane", "rand", "rape-oil", "rapeseed", "reserves", "retail"),
    *("rice", "rubber", "rye", "ship", "silver", "sorghum", "soy-meal", "soy-oil", "soybean"),
    *("strategic-metal", "sugar", "sun-meal", "sun-oil", "sunseed", "tea", "tin", "trade", "veg-oil"),
    *("wheat", "wpi", "yen", "zinc"),
)

_ALL = (
    KnownDataset(
        name="mr",
        title="Movie review sentences",
        aliases=("movie-reviews", "rotten_tomatoes"),
        source="Pang and Lee 2005, Seeing stars",
        licence="CC BY 4.0",
        language="en",
        classes=_NEGATIVE_POSITIVE,
        splits={"train": 8530, "validation": 1066, "test": 1066},
        protocol="folds",
        folds=10,
        hub=Hub(
            id="cornell-movie-review-data/rotten_tomatoes",
            revision="b6059de032aed3fea5bfadcbef8d375559c6bfd9",
            splits=_TRAIN_VALIDATION_TEST,
        ),
        package=Package(
            name="movie-reviews",
            module="movie_reviews",
            file="data/combined_movie_reviews.csv",
            column="source",
            value="rotten_tomatoes",
            text_column="text",
            label_column="label",
            renamed={"0": "neg", "1": "pos"},
            validation=0.1,
            test=0.1,
            seed=0,
        ),
        note="The literature reports 10-fold cross-validation over all rows.",
    ),
    KnownDataset(
        name="sst2",
        title="Stanford Sentiment Treebank, binary",
        aliases=("sst-2", "sst"),
        source="Socher et al. 2013, Recursive deep models for semantic compositionality",
        licence="none stated",
        language="en",
        classes=_NEGATIVE_POSITIVE,
        splits={"train": 6920, "train_phrases": 77616, "validation": 872, "test": 1821},
        protocol="official",
        extra_training=("train_phrases",),
        hub=Hub(
            id="SetFit/sst2",
            revision="00ea8ccb7a54b4e3780a3e51aa3f80361ff849c0",
            splits=_TRAIN_VALIDATION_TEST,
            label_column="label_text",
            renamed=_SENTIMENT,
        ),
        note="train_phrases: every distinct labelled phrase of the training trees; the hub lacks it.",
    ),
    KnownDataset(
        name="subj",
        title="Subjective and objective sentences",
        source="Pang and Lee 2004, A sentimental education",
        licence="CC BY 4.0",
        language="en",
        classes=("objective", "subjective"),
        splits={"train": 10000},
        protocol="folds",
        folds=10,
        hub=Hub(
            id="SetFit/subj",
            revision="f3c1162e678417f664d76b21864fdb87b0615fcf",
            splits=_TRAIN_TEST,
            label_column="label_text",
        ),
        note="No official split; the hub cuts it into 8,000 and 2,000 rows.",
    ),
    KnownDataset(
        name="trec",
        title="Types of questions, six coarse classes",
        aliases=("trec6", "trec-6"),
        source="Li and Roth 2002, Learning question classifiers",
        licence="none stated",
        language="en",
        classes=("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
        splits={"train": 5452, "test": 500},
        protocol="official",
        hub=Hub(
            id="CogComp/trec",
            revision="refs/convert/parquet",
            splits=_TRAIN_TEST,
            label_column="coarse_label",
        ),
        note="Ten questions stand in both splits, as published. The hub's main branch is a loading script, "
        "which datasets no longer runs: hence the branch of converted files.",
    ),
    KnownDataset(
        name="cr",
        title="Customer reviews of products",
        aliases=("customer-reviews",),
        source="Hu and Liu 2004, Mining and summarizing customer reviews",
        licence="CC BY 4.0",
        language="en",
        classes=_NEGATIVE_POSITIVE,
        splits={"train": 3775},
        protocol="folds",
        folds=10,
        hub=Hub(
            id="SetFit/CR",
            revision="01e427e689e9d3a9097f85eab7a91ce937cf5f98",
            splits=_TRAIN_TEST,
            label_column="label_text",
            renamed=_SENTIMENT,
        ),
        note="No official split. Four texts are empty, as in the source.",
    ),
    KnownDataset(
        name="ag_news",
        title="AG's news",
        aliases=("ag", "agnews", "ag-news"),
        source="Zhang et al. 2015, Character-level convolutional networks for text classification",
        licence="non-commercial research use",
        language="en",
        classes=("World", "Sports", "Business", "Sci/Tech"),
        splits={"train": 120000, "test": 7600},
        protocol="official",
        hub=Hub(
            id="fancyzhx/ag_news", revision="eb185aade064a813bc0b7f42de02595523103ca4", splits=_TRAIN_TEST
        ),
    ),
    KnownDataset(
        name="reuters_transfer",
        title="Reuters-21578, from single-label training to multi-label tests",
        aliases=("reuters-transfer",),
        source="Zhao et al. 2018, Investigating capsule networks with dynamic routing (Reuters: Lewis 1997)",
        licence="research use only",
        language="en",
        classes=("acq", "crude", "earn", "grain", "interest", "money-fx", "ship", "trade"),
        splits={"train": 5502, "test_multilabel": 339, "test_full": 2529},
        protocol="official",
        label_column="labels",
        note="Training rows have one label each; test_multilabel has the documents with several, test_full "
        "all test documents. The paper prints 5.8k training, .6k validation, .3k and 3.4k test rows.",
    ),
    KnownDataset(
        name="reuters90",
        title="Reuters-21578, ModApte split, 90 topics",
        aliases=("reuters-90", "reuters"),
        source="Lewis 1997, Reuters-21578 text categorization collection",
        licence="research use only",
        language="en",
        classes=_REUTERS_90,
        splits={"train": 7770, "test": 3019},
        protocol="official",
        multi_label=True,
        label_column="labels",
    ),
    KnownDataset(
        name="imdb",
        title="Large movie reviews",
        source="Maas et al. 2011, Learning word vectors for sentiment analysis",
        licence="none stated",
        language="en",
        classes=_NEGATIVE_POSITIVE,
        splits={"train": 25000, "test": 25000},
        protocol="official",
        hub=Hub(
            id="stanfordnlp/imdb", revision="e6281661ce1c48d982bc483cf8a173c1bbeb5d31", splits=_TRAIN_TEST
        ),
        note="123 texts stand in both splits, as published.",
    ),
    KnownDataset(
        name="thucnews_title",
        title="Chinese news titles (THUCNews)",
        aliases=("thucnews",),
        source="Sun et al. 2016, THUCTC: an efficient Chinese text classifier",
        licence="research use",
        language="zh",
        classes=(
            *("education", "entertainment", "finance", "game", "politics"),
            *("realty", "science", "society", "sports", "stocks"),
        ),
        splits={"train": 180000, "validation": 10000, "test": 10000},
        protocol="official",
    ),
    KnownDataset(
        name="chnsenticorp",
        title="Chinese hotel reviews",
        aliases=("chnsenticorp-hotel",),
        source="Tan and Zhang 2008, An empirical study of sentiment analysis for Chinese documents",
        licence="none stated",
        language="zh",
        classes=_NEGATIVE_POSITIVE,
        splits={"train": 7765},
        protocol="folds",
        folds=10,
        note="No official split.",
    ),
)

DATASETS: Mapping[str, KnownDataset] = {dataset.name: dataset for dataset in _ALL}
NAMES: Mapping[str, KnownDataset] = {name: known for known in _ALL for name in (known.name, *known.aliases)}


def known_dataset(name: str) -> KnownDataset | None:
    """The data set of that name or alias, in any case of letters."""
    return NAMES.get(name.casefold())
