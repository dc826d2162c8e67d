import json
from dataclasses import replace

import numpy as np
import pytest
from made_records import folds, made, seeds, truth_of

from capstext.comparison.report.results import tables, verdict
from capstext.comparison.report.results_file import as_json
from capstext.comparison.report.statistics import mcnemar, paired_bootstrap
from capstext.errors import CapstextError


def only(records):
    (table,) = tables(records)
    return table


def cell(table, name):
    (found,) = (one for one in table.cells if one.name == name)
    return found


def clear_difference():
    return [
        *folds(10, model="capsule-b", accuracy=0.9),
        *folds(10, model="cnn", accuracy=0.7),
        *folds(10, model="lstm", accuracy=0.6),
    ]


def test_a_row_has_mean_deviation_and_number_of_its_runs():
    records = folds(3, model="cnn")
    score = only(records).cells[0].scores["accuracy"]
    values = [record.tests["test"]["accuracy"] for record in records]
    assert score.mean == pytest.approx(np.mean(values))
    assert score.std == pytest.approx(np.std(values, ddof=1))


def test_rows_are_sorted_by_mean_whatever_the_order_of_the_records():
    records = clear_difference()
    assert [one.model for one in only(records).cells] == ["capsule-b", "cnn", "lstm"]
    assert as_json(tables(records)) == as_json(tables(records[::-1]))


def test_the_reference_is_the_best_baseline_and_has_no_test():
    table = only(clear_difference())
    assert cell(table, "capsule-b (glove)").scores["accuracy"].against.reference == "cnn (glove)"
    assert cell(table, "lstm (glove)").scores["accuracy"].against.reference == "cnn (glove)"
    assert cell(table, "cnn (glove)").scores["accuracy"].against is None
    assert table.references == {"cnn (glove)"}


def test_a_reference_has_the_same_embeddings_or_none():
    table = only(
        [
            *folds(2, model="capsule-b", embeddings="glove", accuracy=0.9),
            *folds(2, model="cnn", embeddings="glove", accuracy=0.5),
            *folds(2, model="cnn", embeddings="minilm", accuracy=0.97),
            *folds(2, model="tf-idf", embeddings="none", accuracy=0.75),
        ]
    )
    assert cell(table, "capsule-b (glove)").scores["accuracy"].against.reference == "tf-idf"
    assert cell(table, "cnn (glove)").scores["accuracy"].against.reference == "tf-idf"
    assert cell(table, "cnn (minilm)").scores["accuracy"].against is None


def test_a_reference_has_as_many_runs_as_the_row():
    table = only(
        [
            *folds(3, model="capsule-b", accuracy=0.8),
            *folds(2, model="cnn", accuracy=0.9),
            *folds(3, model="lstm", accuracy=0.6),
        ]
    )
    assert cell(table, "capsule-b (glove)").scores["accuracy"].against.reference == "lstm (glove)"


def test_static_routing_is_a_baseline():
    static = {"routing": {"name": "static"}}
    table = only(
        [
            *folds(2, model="capsule-b", accuracy=0.9),
            *folds(2, model="capsule-b-static", accuracy=0.8, config=static),
        ]
    )
    assert table.best(baseline=True).model == "capsule-b-static"
    assert cell(table, "capsule-b (glove)").scores["accuracy"].against.reference == "capsule-b-static (glove)"


def test_without_a_baseline_nothing_is_tested():
    table = only(folds(2, model="capsule-b"))
    assert table.cells[0].scores["accuracy"].against is None
    assert verdict(table, table.cells[0]) is None


def test_the_tests_are_those_of_the_paired_runs():
    ours, theirs = folds(4, model="capsule-b", accuracy=0.8), folds(4, model="cnn", accuracy=0.7)
    against = cell(only([*ours, *theirs]), "capsule-b (glove)").scores["accuracy"].against
    pairs = list(zip(ours, theirs, strict=True))
    differences = [a.tests["test"]["accuracy"] - b.tests["test"]["accuracy"] for a, b in pairs]
    rows = [a.answers["test"].right.astype(int) - b.answers["test"].right for a, b in pairs]
    assert against.difference == pytest.approx(np.mean(differences))
    assert against.bootstrap_p == paired_bootstrap(differences).p
    assert against.mcnemar_p == pytest.approx(mcnemar(np.concatenate(rows)))


def test_seeds_on_the_same_rows_are_added_up_by_row():
    ours, theirs = seeds(3, model="capsule-b", accuracy=0.8), seeds(3, model="cnn", accuracy=0.7)
    against = cell(only([*ours, *theirs]), "capsule-b (glove)").scores["accuracy"].against
    rows = sum(
        a.answers["test"].right.astype(int) - b.answers["test"].right
        for a, b in zip(ours, theirs, strict=True)
    )
    assert against.mcnemar_p == pytest.approx(mcnemar(rows))


def test_a_missing_pair_is_left_out():
    ours = folds(3, model="capsule-b")[:2]
    table = only([*ours, *folds(4, model="cnn", accuracy=0.3)])
    row = cell(table, "capsule-b (glove)")
    assert (row.n, row.scores["accuracy"].against.n) == (2, 2)


def test_runs_without_any_pair_are_not_tested():
    table = only([made(model="capsule-b", seed=1), made(model="cnn", seed=2)])
    assert cell(table, "capsule-b (glove)").scores["accuracy"].against is None


def test_one_run_has_neither_deviation_nor_bootstrap():
    table = only([made(model="capsule-b", accuracy=0.9), made(model="cnn", accuracy=0.6)])
    score = cell(table, "capsule-b (glove)").scores["accuracy"]
    assert score.std is None
    assert (score.against.bootstrap_p, score.against.low) == (None, None)
    assert score.against.mcnemar_p < 0.05
    assert verdict(table, cell(table, "capsule-b (glove)")) == "better on these rows"


def test_p_values_are_corrected_over_the_table():
    table = only(clear_difference())
    tested = [one.scores["accuracy"].against for one in table.cells if one.scores["accuracy"].against]
    assert len(tested) == 2
    for raw, corrected in (("bootstrap_p", "bootstrap_holm"), ("mcnemar_p", "mcnemar_holm")):
        least = min(getattr(against, raw) for against in tested)
        assert min(getattr(against, corrected) for against in tested) == pytest.approx(min(1, 2 * least))


def test_verdicts_tell_losses_as_wins():
    table = only(clear_difference())
    assert verdict(table, cell(table, "capsule-b (glove)")) == "better"
    assert verdict(table, cell(table, "lstm (glove)")) == "worse"
    alike = only([*folds(4, model="capsule-b", accuracy=0.8), *folds(4, model="cnn", accuracy=0.8)])
    capsules = next(one for one in alike.cells if not one.baseline)
    assert verdict(alike, capsules) == "not told apart"


def test_data_that_differ_are_refused():
    other = truth_of(rows=60, classes=2, dataset="another")
    with pytest.raises(CapstextError, match=r"capsule-b \(glove\) and cnn \(glove\).*rows \(seed 0"):
        tables([made(model="capsule-b"), made(model="cnn", labels=other)])


def test_seeds_on_other_rows_are_refused():
    other = truth_of(rows=60, classes=2, dataset="another")
    records = [made(model=model, seed=seed) for model in ("capsule-b", "cnn") for seed in (0, 1)]
    records += [made(model=model, seed=2, labels=other) for model in ("capsule-b", "cnn")]
    with pytest.raises(CapstextError, match="different rows"):
        tables(records)


def test_the_same_run_twice_is_refused():
    with pytest.raises(CapstextError, match="two runs of cnn with embeddings glove, fold 1, seed 0"):
        tables([*folds(2, model="cnn"), made(model="cnn", fold=1)])


def test_splits_and_protocols_have_tables_of_their_own():
    records = [
        *folds(2, model="cnn"),
        *seeds(2, model="cnn"),
        *seeds(2, model="cnn", dataset="two", splits=("test_full", "test_multilabel")),
    ]
    assert [(table.dataset, table.split, table.protocol) for table in tables(records)] == [
        ("made", "test", "10 folds"),
        ("made", "test", "seeds"),
        ("two", "test_full", "seeds"),
        ("two", "test_multilabel", "seeds"),
    ]


def test_several_labels_are_scored_by_f1_and_exact_match():
    ours = seeds(3, several=True, classes=("a", "b", "c"))
    table = only([*ours, *seeds(3, model="cnn", several=True, classes=("a", "b", "c"), accuracy=0.5)])
    assert table.metrics == ("micro_f1", "samples_f1", "exact_match")
    scores = cell(table, "capsule-b (glove)").scores
    for metric, path in (("micro_f1", "micro"), ("samples_f1", "samples")):
        assert scores[metric].values == tuple(record.tests["test"][path]["f1"] for record in ours)
        assert scores[metric].against.mcnemar_p is None
        assert scores[metric].against.bootstrap_p is not None
    assert scores["exact_match"].against.mcnemar_p is not None


def test_published_figures_stand_beside_the_same_model():
    table = only([*folds(2, dataset="mr", model="capsule-b"), *folds(2, dataset="mr", model="cnn")])
    (ours,) = cell(table, "capsule-b (glove)").scores["accuracy"].published
    theirs = [figure.system for figure in cell(table, "cnn (glove)").scores["accuracy"].published]
    assert (ours.value, theirs) == (0.823, ["CNN-non-static", "Kim-CNN non-static, replica"])


def test_results_have_the_keys_that_programs_read():
    rows = as_json(tables([*folds(2, dataset="mr"), *folds(2, dataset="mr", model="cnn", embeddings="none")]))
    assert len(rows) == 2
    row = next(row for row in rows if row["model"] == "capsule-b")
    wanted = ["dataset", "split", "model", "embeddings", "protocol", "metric", "mean", "std", "n"]
    wanted += ["published", "config"]
    assert list(row)[: len(wanted)] == wanted
    assert row["published"][0].keys() >= {"value", "source", "note"}
    assert (row["parameters"], row["training_seconds"], row["pairs"]) == (100_000, 60.0, 2)
    assert row["reference"] == "cnn"


def test_settings_of_one_run_and_of_a_machine_are_left_out():
    (row,) = as_json(tables(folds(2, config={"training": {"learning_rate": 0.1}})))
    assert row["config"]["training"] == {"epochs": 5, "learning_rate": 0.1}
    assert row["config"]["data"] == {"name": "made", "folds": 10}
    assert row["config"]["embeddings"]["vectors"] == "glove.txt"


def test_settings_that_differ_between_runs_are_left_out():
    rates = [made(fold=fold, config={"training": {"learning_rate": fold}}) for fold in range(2)]
    (row,) = as_json(tables(rates))
    assert row["config"]["training"] == {"epochs": 5}


def test_results_have_no_nan():
    records = [
        replace(made(never=(1,), memory=None), texts_per_second=float("inf")),
        made(model="cnn", dataset="other"),
    ]
    rows = as_json(tables(records))
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert next(row for row in rows if row["dataset"] == "made")["texts_per_second"] is None
