import pytest

from capstext.comparison.report.published import FIGURES, LABELS, figures, nearest
from capstext.data.catalog import DATASETS

NOT_OURS_YET = {"mpqa", "20news", "sst5", "aapd", "mnist", "multimnist", "affnist", "smallnorb"}


def value(dataset, system, *, split="test", metric="accuracy"):
    (found,) = (
        figure for figure in figures(dataset, split) if figure.system == system and figure.metric == metric
    )
    return found.value


def test_figures_are_shares_of_known_data_sets_and_have_a_source():
    for figure in FIGURES:
        assert 0.2 < figure.value < 1, figure
        assert figure.dataset in DATASETS or figure.dataset in NOT_OURS_YET
        assert figure.split is None or figure.split in DATASETS[figure.dataset].splits
        assert figure.source


def test_no_figure_stands_twice():
    keys = [(f.dataset, f.split, f.system, f.metric) for f in FIGURES]
    assert len(set(keys)) == len(keys)


def test_figures_read_from_the_papers():
    assert value("mr", "Capsule-B") == 0.823
    assert value("trec", "CNN-non-static") == 0.936
    assert value("ag_news", "Tree-LSTM") == 0.901
    assert value("reuters_transfer", "Capsule-B", split="test_multilabel", metric="exact_match") == 0.603
    assert value("reuters_transfer", "LSTM", split="test_full", metric="samples_f1") == 0.74
    assert value("reuters90", "CNN", metric="micro_f1") == 0.838
    assert value("mnist", "CapsNet, with reconstruction") == 0.9975


def test_a_missing_figure_is_missing():
    assert not [figure for figure in figures("trec", "test") if figure.system == "LR-LSTM"]


def test_one_split_does_not_show_the_figures_of_another():
    assert {figure.split for figure in figures("reuters_transfer", "test_full")} == {"test_full"}


@pytest.mark.parametrize(
    ("label", "mode", "expected"),
    [
        ("capsule-b", None, "capsule-b"),
        ("Capsule_B", None, "capsule-b"),
        ("capsule-b-paper", None, "capsule-b"),
        ("capsule-b-static", "multichannel", "capsule-static"),
        ("cnn", "random", "cnn-rand"),
        ("cnn", "non-static", "cnn-non-static"),
        ("cnn-static", "static", "cnn-static"),
        ("cnn-release", "static", None),
        ("lstm", None, "lstm"),
        ("bilstm-max", None, "bilstm"),
        ("nb-svm", None, "nb-svm"),
        ("linear", "frozen", None),
    ],
)
def test_a_label_finds_its_published_model(label, mode, expected):
    assert nearest(label, mode) == expected


def test_every_label_is_its_own_nearest():
    assert all(nearest(label) == label for label in LABELS)
