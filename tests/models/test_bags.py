"""TF-IDF and NB-SVM: as scikit-learn has them, but in torch; counted exactly, whatever the padding."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from torch import Tensor, nn

from capstext.batching import pad
from capstext.config import parse
from capstext.embeddings import TokenIds
from capstext.errors import UsageError
from capstext.models import build_network
from capstext.models.bags import NgramBag

BAGS = ["tf-idf", "nb-svm"]
Rows = Sequence[Sequence[int]]


def texts(count: int, *, seed: int, words: int = 30) -> list[list[int]]:
    """Ids from 0 on, frequent ones first, texts of 0 to 19 tokens."""
    random = np.random.default_rng(seed)
    return [(random.zipf(1.4, size=random.integers(0, 20)) % words).tolist() for _ in range(count)]


def targets(rows: Rows, classes: int, *, multi_label: bool) -> Tensor:
    """What the words tell, with some noise, so that no two classes can be told apart wholly."""
    random = np.random.default_rng(7)
    scores = np.array([[row.count(label + 1) for label in range(classes)] for row in rows])
    scores = scores + random.normal(size=scores.shape)
    hot = scores > 0.8 if multi_label else np.eye(classes)[scores.argmax(axis=1)]
    return torch.from_numpy(hot.astype(np.float32))


def solved(
    name: str, rows: Rows, truth: Tensor, *, multi_label: bool = False, seed: int = 0, **options: object
) -> nn.Module:
    sizes = network(name, truth.shape[1], **options).sizes(rows, words=0)
    found = network(name, truth.shape[1], **options, **sizes)
    found.solve(rows, truth, multi_label=multi_label, seed=seed)
    return found.eval()


def network(name: str, classes: int, **options: object) -> Any:
    return build_network(parse({"model": {"name": name, **options}}), in_dim=1, classes=classes)


def log_odds(model: nn.Module, rows: Rows) -> NDArray[np.float32]:
    ids, mask = pad(rows, padding_id=0)
    return model(TokenIds()(ids, mask), mask).detach().numpy()


def in_words(largest: int) -> Any:
    """An analyser for scikit-learn: the n-grams of ids as words."""
    return lambda row: [
        " ".join(map(str, row[start : start + size]))
        for size in range(1, largest + 1)
        for start in range(len(row) - size + 1)
    ]


@pytest.mark.parametrize("sublinear", [True, False], ids=["sublinear", "linear"])
@pytest.mark.parametrize("classifier", ["svm", "logistic"])
@pytest.mark.parametrize(
    ("classes", "multi_label"), [(2, False), (4, False), (3, True)], ids=["two", "four", "several"]
)
def test_tf_idf_is_scikit_learns(classes: int, multi_label: bool, classifier: str, sublinear: bool) -> None:
    rows, unseen = texts(150, seed=1), texts(40, seed=2, words=40)
    truth = targets(rows, classes, multi_label=multi_label)
    model = solved(
        "tf-idf",
        rows,
        truth,
        multi_label=multi_label,
        ngrams=3,
        classifier=classifier,
        sublinear=sublinear,
        strength=2.0,
    )
    vectorizer = TfidfVectorizer(analyzer=in_words(3), min_df=2, sublinear_tf=sublinear)
    estimator = (
        LinearSVC(C=2.0, max_iter=10_000, random_state=0)
        if classifier == "svm"
        else LogisticRegression(C=2.0, max_iter=10_000)
    )
    if multi_label or (classifier == "svm" and classes > 2):
        estimator = OneVsRestClassifier(estimator)
    estimator.fit(
        vectorizer.fit_transform(rows), truth.numpy() if multi_label else truth.argmax(dim=1).numpy()
    )
    expected = estimator.decision_function(vectorizer.transform(unseen))
    found = log_odds(model, unseen)
    if classes == 2:
        found = found[:, 1] - found[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4], ids=["two", "four"])
def test_the_softmax_of_a_logistic_regression_is_its_probability(classes: int) -> None:
    rows = texts(100, seed=1)
    truth = targets(rows, classes, multi_label=False)
    model = solved("tf-idf", rows, truth, classifier="logistic", ngrams=1)
    vectorizer = TfidfVectorizer(analyzer=in_words(1), min_df=2, sublinear_tf=True)
    regression = LogisticRegression(max_iter=10_000)
    regression.fit(vectorizer.fit_transform(rows), truth.argmax(dim=1).numpy())
    probabilities = torch.from_numpy(log_odds(model, rows)).softmax(dim=-1)
    expected = regression.predict_proba(vectorizer.transform(rows))
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 0.25, 1.0])
@pytest.mark.parametrize(
    ("classes", "multi_label"), [(2, False), (4, False), (3, True)], ids=["two", "four", "several"]
)
def test_nb_svm_is_the_papers_formula_on_scikit_learns_machine(
    classes: int, multi_label: bool, beta: float
) -> None:
    rows, unseen = texts(150, seed=1), texts(40, seed=2, words=40)
    truth = targets(rows, classes, multi_label=multi_label)
    model = solved("nb-svm", rows, truth, multi_label=multi_label, beta=beta, alpha=0.5, min_count=1)
    vectorizer = CountVectorizer(analyzer=in_words(2), binary=True, dtype=np.float64)
    present = vectorizer.fit_transform(rows).toarray()
    tested = vectorizer.transform(unseen).toarray()
    found = log_odds(model, unseen)
    if classes == 2:
        found, truth = found[:, 1:] - found[:, :1], truth[:, 1:]
    for place, yes in enumerate(truth.T.bool().numpy()):
        p, q = 0.5 + present[yes].sum(axis=0), 0.5 + present[~yes].sum(axis=0)
        r = np.log((p / np.abs(p).sum()) / (q / np.abs(q).sum()))
        machine = LinearSVC(C=1.0, max_iter=10_000, random_state=0).fit(present * r, yes)
        w, b = machine.coef_[0], machine.intercept_[0]
        mixed = (1 - beta) * np.abs(w).sum() / len(w) + beta * w
        np.testing.assert_allclose(found[:, place], (tested * r) @ mixed + b, atol=1e-5)


@pytest.mark.parametrize("name", BAGS)
def test_a_batch_equals_its_items_whatever_their_padding(name: str) -> None:
    rows = [[], [3], [1, 2], [4, 4, 4, 1], *texts(20, seed=3)]
    model = solved(name, rows, targets(rows, 3, multi_label=False), min_count=1)
    together = log_odds(model, rows)
    for row, expected in zip(rows, together, strict=True):
        np.testing.assert_allclose(log_odds(model, [row])[0], expected, atol=1e-6)


@pytest.mark.parametrize("name", BAGS)
def test_a_text_without_known_words_has_the_bias(name: str) -> None:
    rows = texts(60, seed=1)
    model = solved(name, rows, targets(rows, 3, multi_label=False))
    bias = model.bag.bias.detach().numpy()
    np.testing.assert_array_equal(log_odds(model, [[], [500, 501]]), np.stack([bias, bias]))
    assert (log_odds(model, [[1]]) != bias).any()


@pytest.mark.parametrize("name", BAGS)
def test_an_erased_token_takes_its_ngrams_along(name: str) -> None:
    rows = texts(60, seed=1)
    model = solved(name, rows, targets(rows, 3, multi_label=False), min_count=1, ngrams=2)
    ids, mask = pad([[1, 2, 3, 4]], padding_id=0)
    embedded = TokenIds()(ids, mask)
    embedded[0, 1] = 0
    # 77 was never met in training: neither it nor its n-grams count
    np.testing.assert_array_equal(model(embedded, mask).detach().numpy(), log_odds(model, [[1, 77, 3, 4]]))
    assert (model(embedded, mask).detach().numpy() != log_odds(model, [[1, 3, 4]])).any()


@pytest.mark.parametrize("name", BAGS)
def test_ids_keep_their_meaning_where_zero_is_a_word(name: str) -> None:
    rows = [[0, 5], [0], [6, 0], [5, 6], [6], [5]]
    truth = torch.tensor([[0.0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 0]])
    model = solved(name, rows, truth, min_count=1)
    assert log_odds(model, [[0], [6]]).argmax(axis=1).tolist() == [1, 0]


@pytest.mark.parametrize("name", BAGS)
def test_weights_get_gradients(name: str) -> None:
    rows = texts(60, seed=1)
    model = solved(name, rows, targets(rows, 3, multi_label=False))
    ids, mask = pad(rows, padding_id=0)
    model(TokenIds()(ids, mask), mask).square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@pytest.mark.parametrize("name", BAGS)
@pytest.mark.parametrize("multi_label", [False, True], ids=["one label", "several"])
@pytest.mark.parametrize("classifier", ["svm", "logistic"])
def test_a_class_without_examples_is_unlikely_and_one_of_all_texts_is_likely(
    name: str, multi_label: bool, classifier: str
) -> None:
    options = {"classifier": classifier} if name == "tf-idf" else {}
    rows = texts(60, seed=1)
    truth = torch.zeros(60, 4)
    truth[:, :2] = targets(rows, 2, multi_label=False)
    if multi_label:
        truth[:, 3] = 1
    found = log_odds(solved(name, rows, truth, multi_label=multi_label, **options), rows)
    assert np.isfinite(found).all()
    assert (found[:, 2] < found[:, :2].max(axis=1)).all()
    if multi_label:
        np.testing.assert_allclose(found[:, 3], np.log(61), rtol=1e-6)
        np.testing.assert_allclose(found[:, 2], -np.log(61), rtol=1e-6)


def bag(**options: Any) -> NgramBag:
    return NgramBag(**{"in_dim": 1, "classes": 2, "ngrams": 2, "min_count": 1, "features": None} | options)


def test_every_ngram_has_a_code_of_its_own() -> None:
    ngrams = [list(ids) for size in (1, 2, 3) for ids in product([0, 1, 2, 9, 10], repeat=size)]
    counted = bag(ngrams=3)
    found = [counted._codes(TokenIds.numbers(torch.tensor(ids)))[-1].item() for ids in ngrams]
    assert len(set(found)) == len(ngrams)
    assert min(found) > 0


@pytest.mark.parametrize("ngrams", [1, 2, 3, 4, 5, 8, 20, 63])
def test_the_longest_ngrams_of_the_largest_words_fit_63_bits(ngrams: int) -> None:
    base = bag(ngrams=ngrams)._base
    assert base**ngrams < 2**63 <= (base + 1) ** ngrams


def test_words_beyond_the_base_are_refused_in_training_and_unknown_later() -> None:
    counted = bag(ngrams=5)
    with pytest.raises(ValueError, match=r"n-grams of 5 among 6,208 words do not fit 63 bits; lower model"):
        counted.sizes([[1, 6207]])
    rows = [[1, 2, 3], [1, 6206]]
    model = solved("nb-svm", rows, torch.eye(2), ngrams=5, min_count=1)
    bias = model.bag.bias.detach().numpy()
    np.testing.assert_array_equal(log_odds(model, [[6207, 500_000]])[0], bias)
    assert (log_odds(model, [[6206]])[0] != bias).any()


def test_rows_are_counted_apart_and_words_as_often_as_they_stand() -> None:
    counted = bag(features=4)
    counts = counted.learn([[4, 4, 4], [], [4, 5], [5]]).toarray()
    # the words 4 and 5, then 4 4 and 4 5
    assert counted.sizes([[4, 4, 4], [], [4, 5], [5]]) == {"features": 4}
    assert counts.tolist() == [[3, 0, 2, 0], [0, 0, 0, 0], [1, 1, 0, 1], [0, 1, 0, 0]]


def test_rare_ngrams_are_left_out_and_the_most_frequent_are_kept() -> None:
    rows = [[1, 1, 1], [2, 3], [2, 3], [2], [3, 9]]
    assert bag(min_count=1).sizes(rows) == {"features": 7}
    assert bag(min_count=2).sizes(rows) == {"features": 3}
    limited = bag(min_count=1, features=2)
    assert limited.sizes(rows) == {"features": 2}
    assert limited.learn(rows).toarray().tolist() == [[0, 0], [1, 1], [1, 1], [1, 0], [0, 1]]
    with pytest.raises(ValueError, match=r"no n-gram stands in 9 training texts; lower model\.min_count"):
        bag(min_count=9).sizes(rows)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"name": "tf-idf", "strength": 0}, "model: strength must be over 0, not 0.0"),
        ({"name": "tf-idf", "ngrams": 0}, "model.ngrams: 0 is no size; give 1 or more"),
        ({"name": "tf-idf", "classifier": "smv"}, "model.classifier: 'smv' is none of its values"),
        ({"name": "nb-svm", "beta": 1.5}, "model: beta must be 0 to 1, not 1.5"),
        ({"name": "nb-svm", "alpha": 0}, "model: alpha and strength must be over 0, not 0.0 and 1.0"),
        ({"name": "nb-svm", "dim": 3}, "unknown setting model.dim"),
    ],
)
def test_a_wrong_setting_is_named(model: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        build_network(parse({"model": model}), in_dim=1, classes=2)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["fasttext", *BAGS])
def test_vectors_are_no_input_for_a_network_that_counts_words(name: str) -> None:
    with pytest.raises(UsageError, match="reads one number a token, not vectors of 10"):
        build_network(parse({"model": name}), in_dim=10, classes=2)
