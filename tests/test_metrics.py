import json
import warnings

import numpy as np
import pytest

from capstext.metrics import CALIBRATION_BINS, evaluate


def one_hot(indices, classes):
    return np.eye(classes)[indices]


def by_hand(truth, predicted):
    """Precision, recall and F1 from two lists of booleans."""
    both = sum(t and p for t, p in zip(truth, predicted, strict=True))
    precision = both / sum(predicted) if sum(predicted) else 0.0
    recall = both / sum(truth) if sum(truth) else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if both else 0.0


def test_single_label_scores_by_hand():
    # predictions 0 0 1 2, truth 0 1 1 1
    log_odds = np.array([[2.0, 0, 0], [2, 0, 0], [0, 2, 0], [0, 0, 2]])
    scores = evaluate(log_odds, one_hot([0, 1, 1, 1], 3), classes=["a", "b", "c"], multi_label=False)
    assert scores["rows"] == 4
    assert (
        scores["accuracy"] == scores["exact_match"] == scores["micro"]["f1"] == scores["samples"]["f1"] == 0.5
    )
    assert scores["confusion"] == [[1, 0, 0], [1, 1, 1], [0, 0, 0]]
    assert scores["per_class"]["a"] == {
        "precision": 0.5,
        "recall": 1.0,
        "f1": pytest.approx(2 / 3),
        "support": 1,
    }
    assert scores["per_class"]["b"] == {
        "precision": 1.0,
        "recall": pytest.approx(1 / 3),
        "f1": pytest.approx(0.5),
        "support": 3,
    }
    assert scores["macro"]["recall"] == pytest.approx((1 + 1 / 3) / 2)


def test_a_class_without_examples_is_named_and_has_no_scores():
    log_odds = np.array([[2.0, 0, 0], [0, 2, 0]])
    scores = evaluate(log_odds, one_hot([0, 1], 3), classes=["a", "b", "c"], multi_label=False)
    assert scores["classes_without_examples"] == ["c"]
    assert scores["per_class"]["c"] == {"precision": None, "recall": None, "f1": None, "support": 0}
    assert scores["macro"]["f1"] == 1.0


def test_several_labels_equal_plain_counting():
    generator = np.random.default_rng(0)
    log_odds, targets = generator.normal(size=(40, 5)), generator.random((40, 5)) < 0.4
    scores = evaluate(log_odds, targets, classes=list("abcde"), multi_label=True, threshold=0.6)
    predicted = 1 / (1 + np.exp(-log_odds)) >= 0.6
    keys = ("precision", "recall", "f1")
    columns = [by_hand(targets[:, c].tolist(), predicted[:, c].tolist()) for c in range(5)]
    rows = [by_hand(targets[r].tolist(), predicted[r].tolist()) for r in range(40)]
    assert [scores["macro"][key] for key in keys] == pytest.approx(np.mean(columns, axis=0).tolist())
    assert [scores["samples"][key] for key in keys] == pytest.approx(np.mean(rows, axis=0).tolist())
    micro = by_hand(targets.ravel().tolist(), predicted.ravel().tolist())
    assert [scores["micro"][key] for key in keys] == pytest.approx(micro)
    assert scores["exact_match"] == pytest.approx(
        np.mean([(targets[r] == predicted[r]).all() for r in range(40)])
    )
    assert scores["hamming_loss"] == pytest.approx((targets != predicted).mean())
    for c, name in enumerate("abcde"):
        assert [scores["per_class"][name][key] for key in keys] == pytest.approx(columns[c])
        (true_negative, false_positive), (false_negative, true_positive) = scores["confusion"][c]
        assert true_positive == (targets[:, c] & predicted[:, c]).sum()
        assert false_positive == (~targets[:, c] & predicted[:, c]).sum()
        assert false_negative == (targets[:, c] & ~predicted[:, c]).sum()
        assert true_negative == (~targets[:, c] & ~predicted[:, c]).sum()


def test_a_single_label_model_is_tested_on_rows_with_several():
    # two long capsules, as the transfer task hopes for
    log_odds = np.array([[2.0, 1.0, -2.0], [-1.0, 3.0, -1.0]])
    targets = np.array([[1, 1, 0], [0, 1, 0]])
    scores = evaluate(log_odds, targets, classes=["a", "b", "c"], multi_label=True)
    assert scores["exact_match"] == 1.0
    with pytest.raises(ValueError, match="row 0 has 2 labels"):
        evaluate(log_odds, targets, classes=["a", "b", "c"], multi_label=False)


def test_the_threshold_itself_is_a_yes():
    scores = evaluate(np.zeros((1, 1)), np.ones((1, 1)), classes=["a"], multi_label=True)
    assert scores["accuracy"] == 1.0


def test_calibration_error_by_hand():
    # confidence .8 four times, right three times; confidence .6 once, wrong
    log_odds = np.log(np.array([[0.8, 0.2]] * 4 + [[0.6, 0.4]]))
    scores = evaluate(log_odds, one_hot([0, 0, 0, 1, 1], 2), classes=["a", "b"], multi_label=False)
    assert scores["expected_calibration_error"] == pytest.approx((4 * 0.05 + 1 * 0.6) / 5)
    filled = [bin for bin in scores["reliability"] if bin["count"]]
    assert len(scores["reliability"]) == CALIBRATION_BINS
    assert [bin["count"] for bin in filled] == [1, 4]
    assert [bin["confidence"] for bin in filled] == pytest.approx([0.6, 0.8])
    assert [bin["accuracy"] for bin in filled] == pytest.approx([0.0, 0.75])


def test_probabilities_of_0_and_1_fall_into_the_outer_bins():
    scores = evaluate(np.array([[-800.0, 800.0]]), np.array([[0, 1]]), classes=["a", "b"], multi_label=True)
    assert scores["reliability"][0]["count"] == scores["reliability"][-1]["count"] == 1
    assert scores["expected_calibration_error"] == 0


def test_negative_log_likelihood_by_hand():
    log_odds = np.array([[0.0, 0.0], [0.0, np.log(3)]])
    single = evaluate(log_odds, one_hot([0, 1], 2), classes=["a", "b"], multi_label=False)
    assert single["negative_log_likelihood"] == pytest.approx(-(np.log(0.5) + np.log(0.75)) / 2)
    several = evaluate(log_odds, one_hot([0, 1], 2), classes=["a", "b"], multi_label=True)
    assert several["negative_log_likelihood"] == pytest.approx(-(3 * np.log(0.5) + np.log(0.75)) / 2)


@pytest.mark.parametrize("multi_label", [False, True], ids=["one label", "several labels"])
def test_scores_are_json_without_nan_and_without_warnings(multi_label):
    log_odds = np.array([[900.0, -900, 0], [-900, 900, 0]], np.float32)
    targets = one_hot([1, 1], 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = evaluate(log_odds, targets, classes=["a", "b", "c"], multi_label=multi_label)
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores


def test_rows_without_any_label_give_no_crash():
    scores = evaluate(np.full((3, 2), -4.0), np.zeros((3, 2)), classes=["a", "b"], multi_label=True)
    assert scores["exact_match"] == 1.0
    assert scores["macro"] == scores["micro"] == {"precision": None, "recall": None, "f1": None}


@pytest.mark.parametrize(
    ("log_odds", "targets", "threshold", "message"),
    [
        (np.zeros((2, 2)), np.zeros((2, 3)), 0.5, r"\(2, 2\) and targets \(2, 3\)"),
        (np.zeros((0, 2)), np.zeros((0, 2)), 0.5, "no rows"),
        (np.zeros((1, 2)), np.ones((1, 2)), 1.5, "threshold must be in 0..1, not 1.5"),
        (np.array([[0.0, 0.0], [np.nan, 0.0]]), np.ones((2, 2)), 0.5, "log-odds of row 1"),
    ],
)
def test_wrong_input_is_named(log_odds, targets, threshold, message):
    with pytest.raises(ValueError, match=message):
        evaluate(log_odds, targets, classes=["a", "b"], multi_label=True, threshold=threshold)
