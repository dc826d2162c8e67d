"""Figures that others have published, to stand beside ours, and which of our models each belongs to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Published:
    """One figure: a share of 1, as our own scores are, whatever way it was printed."""

    dataset: str  # as in the catalogue, for those that it has
    split: str | None = None  # none: the usual test rows
    system: str  # as its source calls it
    model: str | None = None  # our label for the same model; none where we do not have it
    metric: str = "accuracy"
    value: float
    source: str
    note: str = ""


ZHAO = "Zhao et al. 2018, Investigating capsule networks with dynamic routing (arXiv 1804.00538v4)"
KIM = "Kim 2014, Convolutional neural networks for sentence classification (EMNLP), table 2"
WANG = "Wang and Manning 2012, Baselines and bigrams (ACL)"
KIM_CAPSULES = "Kim et al. 2018, Text classification using capsules (arXiv 1808.03976)"
FASTTEXT = "fastText, supervised models (fasttext.cc/docs/en/supervised-models.html)"
HARVARD = "harvardnlp, replica of Kim-CNN (github.com/harvardnlp/sent-conv-torch)"
TEXTATTACK = "TextAttack, model cards (huggingface.co/textattack)"
SETFIT = "Tunstall et al. 2022, Efficient few-shot learning without prompts (arXiv 2209.11055)"
HEINSEN_2019 = "Heinsen 2019, An algorithm for routing capsules in all domains (arXiv 1911.00792)"
HEINSEN_2022 = "Heinsen 2022, An algorithm for routing vectors in sequences (arXiv 2211.11754)"
INDEPENDENT = "an independent comparison of routings, 5 seeds"
SABOUR = "Sabour et al. 2017, Dynamic routing between capsules (arXiv 1710.09829)"
HINTON = "Hinton et al. 2018, Matrix capsules with EM routing (ICLR)"
GRITZMAN = "Gritzman 2019, Avoiding implementation pitfalls of matrix capsules (arXiv 1907.00652)"
REPRODUCTIONS = "public reproductions of the paper's network"

_WORD2VEC = "word2vec 300-d; one figure, no deviation"
_NO_VECTORS = "vectors learned; one figure, no deviation"
_ONE = "one figure, no deviation"
_SENTENCES = ("mr", "sst2", "subj", "trec", "cr", "ag_news")

# Zhao et al. 2018, table 2: our label, and % by the data sets above.
_ZHAO_ACCURACY: Mapping[str, tuple[str | None, Sequence[float | None]]] = {
    "LSTM": ("lstm", (75.9, 80.6, 89.3, 86.8, 78.4, 86.1)),
    "BiLSTM": ("bilstm", (79.3, 83.2, 90.5, 89.6, 82.1, 88.2)),
    "Tree-LSTM": (None, (80.7, 85.7, 91.3, 91.8, 83.2, 90.1)),
    "LR-LSTM": (None, (81.5, 87.5, 89.9, None, 82.5, None)),
    "CNN-rand": ("cnn-rand", (76.1, 82.7, 89.6, 91.2, 79.8, 92.2)),
    "CNN-static": ("cnn-static", (81.0, 86.8, 93.0, 92.8, 84.7, 91.4)),
    "CNN-non-static": ("cnn-non-static", (81.5, 87.2, 93.4, 93.6, 84.3, 92.3)),
    "CL-CNN": (None, (None, None, 88.4, 85.7, None, 92.3)),
    "VD-CNN": (None, (None, None, 88.2, 85.4, None, 91.3)),
    "Capsule-A": ("capsule-a", (81.3, 86.4, 93.3, 91.8, 83.8, 92.1)),
    "Capsule-B": ("capsule-b", (82.3, 86.8, 93.8, 92.8, 85.1, 92.6)),
}
# Table 4: exact match, precision, recall and F1 in %, of texts with several labels and of all.
_ZHAO_REUTERS: Mapping[str, tuple[str, Sequence[float], Sequence[float]]] = {
    "LSTM": ("lstm", (23.3, 86.7, 54.7, 63.5), (62.5, 78.6, 72.6, 74.0)),
    "BiLSTM": ("bilstm", (26.4, 82.3, 55.9, 64.6), (65.8, 83.7, 75.4, 77.8)),
    "CNN-rand": ("cnn-rand", (22.5, 88.6, 56.4, 67.1), (63.4, 78.7, 71.5, 73.6)),
    "CNN-static": ("cnn-static", (27.1, 91.1, 59.1, 69.7), (63.3, 78.5, 71.2, 73.3)),
    "CNN-non-static": ("cnn-non-static", (27.4, 92.0, 59.7, 70.4), (64.1, 80.6, 72.7, 75.0)),
    "Capsule-A": ("capsule-a", (57.2, 88.2, 80.1, 82.0), (66.0, 83.9, 80.5, 80.2)),
    "Capsule-B": ("capsule-b", (60.3, 95.4, 82.0, 85.8), (67.7, 86.4, 80.1, 81.4)),
}
# Tables 5 and A.4, Capsule-B on MR; two rows with the same printed settings differ by 0.4.
_ZHAO_ABLATIONS: Mapping[str, float] = {
    "Capsule-B, routing of Sabour et al., 3 iterations": 81.4,
    "Capsule-B, 1 iteration": 81.4,
    "Capsule-B, 5 iterations": 81.6,
    "Capsule-B without leaky softmax": 81.7,
    "Capsule-B without orphan": 81.9,
    "Capsule-B without amendment": 82.1,
    "Capsule-B, shared weights": 81.8,
    "Capsule-B, margin loss, shared, no orphan": 81.2,
    "Capsule-B, spread loss, shared, no orphan": 81.1,
    "Capsule-B, cross-entropy, shared, no orphan": 80.3,
}
# All others: system, our label, source, note, and % by data set.
_OTHERS: Sequence[tuple[str, str | None, str, str, Mapping[str, float]]] = (
    (
        "CNN-multichannel",
        "cnn-multichannel",
        KIM,
        _WORD2VEC,
        {"mr": 81.1, "sst2": 88.1, "subj": 93.2, "trec": 92.2, "cr": 85.0},
    ),
    ("NBSVM-bi", "nb-svm", WANG, "no vectors", {"mr": 79.4, "subj": 93.2, "imdb": 91.22}),
    (
        "Text capsules, static routing",
        "capsule-static",
        KIM_CAPSULES,
        "another network; mean of 5",
        {"trec": 94.84, "mr": 80.98, "mpqa": 90.57, "20news": 87.17},
    ),
    (
        "Text capsules, dynamic routing",
        None,
        KIM_CAPSULES,
        "mean of 5",
        {"trec": 93.80, "mr": 81.00, "mpqa": 89.60, "20news": 86.45},
    ),
    (
        "CNN beside the text capsules",
        None,
        KIM_CAPSULES,
        "",
        {"trec": 92.7, "mr": 81.3, "mpqa": 89.9, "20news": 86.6},
    ),
    (
        "Kim-CNN non-static, replica",
        "cnn-non-static",
        HARVARD,
        "word2vec 300-d",
        {"mr": 81.3, "sst2": 87.0, "subj": 93.4, "trec": 92.8, "cr": 84.4},
    ),
    ("fastText", "fasttext", FASTTEXT, "all 120,000 training rows", {"ag_news": 92.4}),
    ("fastText, quantised to 1.6 MB", None, FASTTEXT, "all 120,000 training rows", {"ag_news": 92.0}),
    ("BERT-base", None, TEXTATTACK, "fine-tuned", {"mr": 83.8, "sst2": 92.4, "ag_news": 94.2}),
    ("RoBERTa-base", None, TEXTATTACK, "fine-tuned", {"mr": 88.3, "sst2": 94.0, "ag_news": 94.7}),
    ("SetFit, 8 labels a class", None, SETFIT, "few-shot", {"cr": 88.5, "ag_news": 82.9}),
    ("SetFit, 64 labels a class", None, SETFIT, "few-shot", {"cr": 90.4, "ag_news": 88.0}),
    ("Heinsen routing", None, HEINSEN_2019, "on frozen GPT-2", {"sst2": 95.6}),
    ("Heinsen routing", None, HEINSEN_2022, "on RoBERTa-large", {"sst5": 59.8}),
    ("CapsNet, with reconstruction", None, SABOUR, "printed as error .25; 8.2M parameters", {"mnist": 99.75}),
    ("CapsNet, without reconstruction", None, SABOUR, "printed as error .35", {"mnist": 99.65}),
    ("CapsNet", None, SABOUR, "printed as error 5.2", {"multimnist": 94.8}),
    ("CapsNet", None, SABOUR, "", {"affnist": 79.0}),
    ("CNN beside CapsNet", None, SABOUR, "", {"affnist": 66.0}),
    ("CapsNet, reproductions", None, REPRODUCTIONS, "best of three: .34, .36, .36 error", {"mnist": 99.66}),
    ("Matrix capsules, EM", None, HINTON, "printed as error 1.8; 310K parameters", {"smallnorb": 98.2}),
    ("Matrix capsules, EM, best", None, HINTON, "printed as error 1.4", {"smallnorb": 98.6}),
    ("CNN beside matrix capsules", None, HINTON, "error 5.2; 4.2M parameters", {"smallnorb": 94.8}),
    ("Matrix capsules, EM", None, HINTON, "printed as error .44", {"mnist": 99.56}),
    ("Matrix capsules, EM, IBM", None, GRITZMAN, "2 iterations", {"smallnorb": 95.4}),
    ("Matrix capsules, EM, reproduction", None, REPRODUCTIONS, "", {"smallnorb": 91.8}),
    ("Matrix capsules, EM, another reproduction", None, REPRODUCTIONS, "", {"smallnorb": 90.9}),
)
# Micro-F1 by an independent comparison, which no routing won.
_INDEPENDENT_F1: Mapping[str, Mapping[str, float]] = {
    "CNN": {"aapd": 69.1, "reuters90": 83.8},
    "Dynamic routing": {"aapd": 62.4, "reuters90": 73.8},
    "Heinsen routing": {"aapd": 64.6, "reuters90": 72.3},
}


def _all() -> Iterator[Published]:
    for system, (model, row) in _ZHAO_ACCURACY.items():
        # what vectors the systems that were taken over from others had is not said
        note = _NO_VECTORS if system == "CNN-rand" else _WORD2VEC if model else _ONE
        for dataset, value in zip(_SENTENCES, row, strict=True):
            if value is not None:
                yield Published(
                    dataset=dataset,
                    system=system,
                    model=model,
                    value=_share(value),
                    source=f"{ZHAO}, table 2",
                    note=note,
                )
    for system, (model, several, full) in _ZHAO_REUTERS.items():
        for split, scores in (("test_multilabel", several), ("test_full", full)):
            exact, precision, recall, f1 = scores
            note = f"precision {precision}, recall {recall}; the paper says micro, its code averages samples"
            for metric, value, said in (("exact_match", exact, _ONE), ("samples_f1", f1, note)):
                yield Published(
                    dataset="reuters_transfer",
                    split=split,
                    system=system,
                    model=model,
                    metric=metric,
                    value=_share(value),
                    source=f"{ZHAO}, table 4",
                    note=said,
                )
    for system, value in _ZHAO_ABLATIONS.items():
        source = f"{ZHAO}, tables 5 and A.4"
        yield Published(dataset="mr", system=system, value=_share(value), source=source, note=_WORD2VEC)
    for system, model, source, note, figures in _OTHERS:
        for dataset, value in figures.items():
            yield Published(
                dataset=dataset, system=system, model=model, value=_share(value), source=source, note=note
            )
    for system, figures in _INDEPENDENT_F1.items():
        for dataset, value in figures.items():
            yield Published(
                dataset=dataset, system=system, metric="micro_f1", value=_share(value), source=INDEPENDENT
            )


def _share(percent: float) -> float:
    return round(percent / 100, 6)


FIGURES: tuple[Published, ...] = tuple(_all())
LABELS = frozenset(figure.model for figure in FIGURES if figure.model)


def figures(dataset: str, split: str) -> list[Published]:
    """All that is published on the test rows of a data set."""
    return [figure for figure in FIGURES if figure.dataset == dataset and figure.split in (None, split)]


def nearest(label: str, mode: str | None = None) -> str | None:
    """The label above that a user's label is, or begins with; a plain CNN is named by its embedding mode."""
    name = label.casefold().replace("_", "-").replace(" ", "-")
    if name == "cnn" and mode is not None:
        name = "cnn-rand" if mode == "random" else f"cnn-{mode}"
    if name.startswith("capsule") and name.endswith("-static"):
        return "capsule-static"
    near = [known for known in LABELS if name == known or name.startswith(f"{known}-")]
    return max(near, key=len, default=None)
