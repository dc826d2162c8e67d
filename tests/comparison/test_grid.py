"""What runs a comparison's config asks for, and what it is refused for."""

from pathlib import Path

import pytest
import yaml

from capstext.comparison import grid
from capstext.comparison.running import cells, check_settings
from capstext.errors import CapstextError, UsageError

BASE = {
    "datasets": {"mr": {"folds": 3}, "trec": {"seeds": 2, "epochs": 9}},
    "embeddings": {"glove": {"vectors": "glove.6B.100d"}, "minilm": {"vectors": "minilm"}},
    "models": {
        "capsule-b": {},
        "cnn-rand": {"model": "cnn", "embeddings": {"mode": "random"}},
        "cnn": {"with": ["glove"], "embeddings": {"dropout": 0}},
    },
    "budget": {"epochs": 4},
}


def plan(folder: Path, changes: dict | None = None, **options: object) -> list[grid.Planned]:
    path = folder / "compare.yaml"
    path.write_text(yaml.safe_dump(BASE | (changes or {})))
    return grid.load(path, **options)  # type: ignore[arg-type]


def test_models_meet_embeddings_on_every_fold_and_seed(tmp_path: Path) -> None:
    found = plan(tmp_path)
    cells = {(run.cell.dataset, run.cell.model, run.cell.embeddings) for run in found}
    rows = {
        ("capsule-b", "glove"),
        ("capsule-b", "minilm"),
        ("cnn-rand", "random"),
        ("cnn", "glove"),
    }
    assert cells == {(dataset, *row) for dataset in ("mr", "trec") for row in rows}
    assert len(found) == 4 * 3 + 4 * 2
    assert sorted({run.fold for run in found if run.cell.dataset == "mr"}) == [0, 1, 2]
    assert sorted({run.seed for run in found if run.cell.dataset == "trec"}) == [0, 1]


def test_all_models_have_the_same_budget_splits_and_own_settings(tmp_path: Path) -> None:
    for run in plan(tmp_path):
        config = run.config(run.cell.config)
        assert config.training.epochs == (4 if run.cell.dataset == "mr" else 9)
        assert config.data.name == run.cell.dataset
        assert config.data.fold == run.fold
        assert config.data.folds == (3 if run.cell.dataset == "mr" else 10)
        assert config.training.seed == run.seed
        assert config.embeddings.dropout == (0 if run.cell.model == "cnn" else 0.5)
        assert config.model.name == ("cnn" if run.cell.model.startswith("cnn") else "capsule-b")


def test_the_command_line_stands_before_the_file(tmp_path: Path) -> None:
    assert {run.cell.protocol for run in plan(tmp_path, folds=4)} == {"4 folds"}
    assert len({run.seed for run in plan(tmp_path, seeds=3)}) == 3
    (run, *_) = plan(tmp_path, data=["elsewhere/texts.csv"])
    assert (run.cell.dataset, run.cell.config.data.name) == ("texts", "elsewhere/texts.csv")


def test_static_routing_is_a_baseline_and_capsules_are_not(tmp_path: Path) -> None:
    models = {"capsule-b": {}, "static": {"model": "capsule-b", "routing": "static"}, "lstm": {}}
    families = {run.cell.model: run.cell.family for run in plan(tmp_path, {"models": models})}
    assert families == {"capsule-b": "capsules", "static": "baseline", "lstm": "baseline"}


def test_every_model_tries_as_many_settings(tmp_path: Path) -> None:
    search = {"training.learning_rate": [0.001, 0.002, 0.004], "embeddings.dropout": [0.1, 0.5]}
    models = {"capsule-b": {}, "lstm": {"search": {"model.hidden": [32, 64, 96, 128]}}}
    found = plan(tmp_path, {"budget": {"epochs": 1, "trials": 4}, "search": search, "models": models})
    for run in found:
        assert len(run.cell.choices) == 4
        assert len({str(choice) for choice in run.cell.choices}) == 4
        assert run.cell.choices[0].keys() == ({"model.hidden"} if run.cell.model == "lstm" else search.keys())


def test_only_some_runs_can_be_asked_for(tmp_path: Path) -> None:
    found = plan(tmp_path, only=["mr", "cnn", "cnn-rand"])
    assert {(run.cell.dataset, run.cell.model) for run in found} == {("mr", "cnn"), ("mr", "cnn-rand")}
    assert {run.cell.embeddings for run in plan(tmp_path, only=["minilm"])} == {"minilm"}
    with pytest.raises(CapstextError, match="no runs of 'trek'; did you mean trec"):
        plan(tmp_path, only=["trek"])


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"modles": []}, "unknown setting modles; did you mean models?"),
        ({"models": []}, "no models"),
        ({"models": ["capsul-b"]}, "unknown model 'capsul-b'; did you mean capsule-b?"),
        ({"models": {"cnn": {"with": ["glov"]}}}, "unknown embeddings 'glov'; did you mean glove?"),
        ({"models": {"cnn": {"embeddings": {"vectors": "x"}}}}, "both set embeddings.vectors"),
        ({"models": {"cnn": {"training": {"epochs": 99}}}}, "training.epochs is the budget's"),
        ({"models": {"cnn": {"trainign": {}}}}, "unknown section trainign; did you mean training?"),
        ({"models": {"cnn": {"model": {"filtres": 3}}}}, "unknown setting model.filtres"),
        ({"budget": {}}, "give epochs or seconds"),
        ({"budget": {"epochs": 0}}, "expected a whole number over 0"),
        ({"budget": {"epochs": 3, "trials": 2}}, "0 combinations to search, fewer than budget.trials 2"),
        ({"search": {"training.learning_rate": [1]}}, "search needs budget.trials"),
        ({"datasets": {"mr": {"seeds": 2, "folds": 3}}}, "give one of them"),
        ({"datasets": {"mr": {"folds": 1}}}, "no number of folds"),
        ({"datasets": ["../mr.csv"]}, "leaves the config's folder"),
        ({"models": {"a b": {"model": "cnn"}, "a-b": {"model": "cnn"}}}, "would be one file"),
        ({"budget": [3]}, "budget: expected settings such as `epochs: 5`"),
        ({"budget": {"seconds": float("inf")}}, "budget.seconds: expected a number over 0, found inf"),
        ({"budget": {"epochs": float("nan")}}, "budget.epochs: expected a whole number over 0, found nan"),
        ({"budget": {"epochs": "many"}}, "budget.epochs: expected a whole number over 0, found 'many'"),
        ({"search": {"data.validation": [0.1, 0.2]}}, "data.validation cannot be searched"),
        ({"search": {"model.name": ["cnn", "lstm"]}}, "model.name cannot be searched"),
        ({"budget": {"epochs": 3, "trials": 2}, "search": {1.5: [1, 2]}}, "unknown setting 1"),
        ({"models": [{"cnn": 1}]}, "models: expected a list of names, or names with settings"),
        ({"models": [["cnn"]]}, "models: expected a list of names"),
        ({"models": {" ": {"model": "cnn"}}}, "models: ' ' is no name"),
        ({"models": {"c" * 201: {"model": "cnn"}}}, "is no name; give one of 1 to 200 bytes"),
        ({"settings": 5}, "settings: expected settings with their values, found 5"),
        ({"settings": {"training": 5}}, "settings.training: expected settings with their values, found 5"),
        ({"settings": {"training": "fast"}}, "settings.training: expected settings with their values"),
        ({"models": {"cnn": {"tokens": ["word"]}}}, "models.cnn.tokens: expected settings with their values"),
        ({"datasets": {"mr": {"folds": 1001}}}, "1001 is no number of folds; give 2 to 1000"),
        ({"datasets": {"mr": {"seeds": 10**30}}}, "is no number of seeds; give 1 to 1000"),
        ({"settings": {"data": {"name": "mr"}}}, "data.name is the data sets': list it in datasets"),
        ({"embeddings": {"none": {"vectors": "minilm"}}, "models": ["cnn"]}, "rename it"),
        ({"models": {"cnn": {"data": {"validation": 0.5}}}}, "the same for every model"),
        ({"models": {"cnn": {"model": {"name": ["cnn"]}}}}, "unknown model ['cnn']"),
        ({"models": {"cnn": {"model": {1: 2}}}}, "unknown setting model.1"),
        ({"models": {"cnn": {"with": "glove"}}}, "with: expected a list of embeddings, such as `[glove]`"),
        ({"models": {"cnn": {"with": []}}}, "with: expected a list of embeddings"),
        ({"models": {"cnn": {"with": ["glove", "glove"]}}}, "with: expected a list of embeddings"),
        ({"models": {"tf-idf": {"with": ["glov"]}}}, "with: unknown embeddings 'glov'"),
        ({"models": {"cnn": {"training": {"clip": "x"}}}}, "mr, cnn, glove: training.clip: expected float"),
        ({"embeddings": {"odd": {"vectors": "a/\0"}}, "models": ["cnn"]}, "is no path"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_named_in_one_line(changes: dict, part: str, tmp_path: Path) -> None:
    with pytest.raises(CapstextError) as caught:
        check_settings(cells(plan(tmp_path, changes)), say=lambda _: None)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_budget_may_be_written_as_people_write_numbers(tmp_path: Path) -> None:
    """YAML reads 1e1 as a string and 2.0 as a float."""
    search = {"training.warmup": [0.1, 0.2]}
    found = plan(tmp_path, {"budget": {"epochs": "1e1", "trials": 2.0}, "search": search})
    of_mr = next(run.cell for run in found if run.cell.dataset == "mr")
    assert (of_mr.config.training.epochs, len(of_mr.choices)) == (10, 2)
    seconds = plan(tmp_path, {"datasets": ["mr"], "budget": {"seconds": "1e3"}})[0].cell.budget.seconds
    assert seconds == 1000


def test_embeddings_may_be_called_by_a_number(tmp_path: Path) -> None:
    found = plan(
        tmp_path, {"embeddings": {300: {"vectors": "minilm"}}, "models": {"cnn": {"with": [300]}}}, seeds=1
    )
    assert {run.cell.embeddings for run in found} == {"300"}


def test_two_files_of_one_name_are_told_apart_or_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--data: a/texts\.csv and b/texts\.csv would both be called texts"):
        plan(tmp_path, data=["a/texts.csv", "b/texts.csv"])
    with pytest.raises(UsageError, match="would both be called mr"):
        plan(tmp_path, data=["mr", "mr.csv"])


@pytest.mark.parametrize("name", [".", ".."])
def test_a_folder_given_by_dots_is_called_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    found = plan(tmp_path, data=[name])
    assert {run.cell.dataset for run in found} == {inner.name if name == "." else tmp_path.name}
    assert {run.cell.config.data.name for run in found} == {name}
