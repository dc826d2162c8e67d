from collections import Counter
from dataclasses import replace

import datasets
import numpy as np
import pytest

from capstext.data.sources import Corpus
from capstext.data.splits import fold, with_test, with_validation
from capstext.errors import CapstextError, UsageError


def corpus(**splits: list[list[int]]) -> Corpus:
    features = datasets.Features(text=datasets.Value("string"), labels=datasets.List(datasets.Value("int64")))
    built = {
        name: datasets.Dataset.from_dict(
            {"text": [f"{name} {row}" for row in range(len(labels))], "labels": labels}, features=features
        )
        for name, labels in splits.items()
    }
    highest = max(label for labels in splits.values() for row in labels for label in row)
    return Corpus(
        name="toy",
        splits=built,
        classes=tuple(f"c{number}" for number in range(highest + 1)),
        multi_label=any(len(row) != 1 for labels in splits.values() for row in labels),
        origin="here",
        text_column="text",
        label_column="labels",
    )


SINGLE = [[0]] * 600 + [[1]] * 300 + [[2]] * 100


def share_of(rows: datasets.Dataset) -> dict[int, int]:
    return dict(Counter(label for row in rows["labels"] for label in row))


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15, 0.5])
def test_the_cut_keeps_the_shares_of_the_classes(share):
    cut = with_validation(corpus(train=SINGLE), share=share, seed=3)
    found = share_of(cut.splits["validation"])
    for label, count in enumerate((600, 300, 100)):
        assert abs(found[label] - share * count) <= 1
    assert len(cut.splits["validation"]) == round(share * 1000)
    assert "validation rows are cut from the training rows, stratified, seed 3" in cut.notes[-1]


def test_the_cut_loses_no_row_keeps_the_order_and_depends_on_the_seed_only():
    whole = corpus(train=SINGLE)
    cuts = [with_validation(whole, share=0.1, seed=seed) for seed in (0, 0, 1)]
    texts = [[row for split in ("train", "validation") for row in cut.splits[split]["text"]] for cut in cuts]
    assert all(sorted(text) == sorted(whole.splits["train"]["text"]) for text in texts)
    assert texts[0] == texts[1] != texts[2]
    numbers = [int(text.split()[1]) for text in cuts[0].splits["train"]["text"]]
    assert numbers == sorted(numbers)


def test_splits_that_exist_are_left_alone():
    whole = corpus(train=SINGLE, validation=[[0]], test_full=[[1]])
    assert with_validation(whole, share=0.1, seed=0) is whole
    assert with_test(whole, share=0.1, seed=0) is whole


def test_a_test_split_is_cut_where_there_is_none():
    cut = with_validation(with_test(corpus(train=SINGLE), share=0.1, seed=0), share=0.1, seed=0)
    assert {name: len(rows) for name, rows in cut.splits.items()} == {
        "train": 810,
        "test": 100,
        "validation": 90,
    }
    texts = [text for rows in cut.splits.values() for text in rows["text"]]
    assert len(set(texts)) == 1000


def test_the_only_row_of_a_class_stays_in_training():
    for seed in range(20):
        cut = with_validation(corpus(train=[[0]] * 9 + [[1]] * 9 + [[2]]), share=0.5, seed=seed)
        assert share_of(cut.splits["train"])[2] == 1


def test_rows_with_several_labels_are_cut_by_their_rarest_label():
    labels = [[0, 1]] * 400 + [[0]] * 500 + [[0, 2]] * 50 + [[]] * 50
    cut = with_validation(corpus(train=labels), share=0.2, seed=0)
    assert Counter(map(tuple, cut.splits["validation"]["labels"])) == {
        (0, 1): 80,
        (0,): 100,
        (0, 2): 10,
        (): 10,
    }


def test_a_share_that_makes_no_sense_and_too_few_rows_are_refused():
    for share in (0, -1, 0.6, 1, float("nan")):
        with pytest.raises(UsageError, match=r"it must be above 0 and at most 0\.5"):
            with_validation(corpus(train=SINGLE), share=share, seed=0)
    with pytest.raises(CapstextError, match="too few training rows"):
        with_validation(corpus(train=[[0], [1]]), share=0.1, seed=0)


def test_every_row_is_tested_in_exactly_one_fold():
    whole = corpus(train=[[0]] * 60 + [[1]] * 40, validation=[[1]] * 10, test=[[0]] * 10)
    folds = [fold(whole, index=index, count=10, seed=5) for index in range(10)]
    tested = [text for cut in folds for text in cut.splits["test"]["text"]]
    assert sorted(tested) == sorted(text for rows in whole.splits.values() for text in rows["text"])
    for cut in folds:
        assert share_of(cut.splits["test"]) == {0: 7, 1: 5}
        parts = [set(rows["text"]) for rows in cut.splits.values()]
        assert len(set.union(*parts)) == sum(map(len, parts)) == 120
        assert len(cut.splits["validation"]) == 11


def test_folds_are_the_same_for_every_caller():
    texts = [fold(corpus(train=SINGLE), index=2, count=5, seed=1).splits["test"]["text"][:] for _ in range(2)]
    other = fold(corpus(train=SINGLE), index=2, count=5, seed=2).splits["test"]["text"][:]
    assert texts[0] == texts[1] != other


def test_folds_leave_out_extra_splits():
    whole = corpus(train=SINGLE, train_phrases=[[0]] * 50, test_full=[[1]] * 50)
    cut = fold(whole, index=0, count=10, seed=0)
    assert sum(len(rows) for rows in cut.splits.values()) == len(SINGLE)


def test_folds_refuse_extra_training_rows_in_the_place_of_the_training_rows():
    whole = replace(corpus(train=SINGLE, train_phrases=[[0]] * 50), extra_training=("train_phrases",))
    phrases = {**whole.splits, "train": whole.splits["train_phrases"]}
    with pytest.raises(UsageError, match=r"^toy: folds of train_phrases would test on .* not both$"):
        fold(replace(whole, splits=phrases), index=0, count=10, seed=0)
    assert len(fold(whole, index=0, count=10, seed=0).splits["test"]) == 100


def test_folds_of_rows_with_several_labels():
    cut = fold(corpus(train=[[0, 1], [0], [0], [1, 2]] * 40), index=0, count=4, seed=0)
    assert share_of(cut.splits["test"]) == {0: 30, 1: 20, 2: 10}


@pytest.mark.parametrize(
    ("labels", "count", "message"),
    [
        ([[0], [1], [0]], 10, "toy has 3 rows, fewer than 10 folds"),
        ([[0]] * 5 + [[1]] * 5, 8, "no class has as many rows as there are folds"),
    ],
)
def test_too_few_rows_for_the_folds_are_refused(labels, count, message):
    with pytest.raises(CapstextError, match=message):
        fold(corpus(train=labels), index=0, count=count, seed=0)


def test_a_class_without_training_rows_is_named():
    labels = [[0]] * 50 + [[1]] * 50 + [[2]]
    holder = next(
        index for index in range(10) if "c2" in refused(corpus(train=labels), index=index, count=10, seed=0)
    )
    with pytest.raises(CapstextError, match=f"toy, fold {holder} of 10: no training rows of class c2"):
        fold(corpus(train=labels), index=holder, count=10, seed=0)
    others = [
        refused(corpus(train=labels), index=index, count=10, seed=0) for index in range(10) if index != holder
    ]
    assert others == [""] * 9


def refused(whole: Corpus, **options: int) -> str:
    try:
        fold(whole, **options)
    except CapstextError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("index", "count"), [(-1, 10), (10, 10), (0, 1), (0, 0)])
def test_folds_are_counted_from_zero(index, count):
    with pytest.raises(UsageError, match="counted from 0"):
        fold(corpus(train=SINGLE), index=index, count=count, seed=0)


def test_the_seed_of_numpy_at_large_is_left_alone():
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()
    fold(corpus(train=SINGLE), index=0, count=5, seed=0)
    with_validation(corpus(train=SINGLE), share=0.1, seed=0)
    assert np.random.get_state()[1].tolist() == before
