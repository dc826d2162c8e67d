"""Configs are strict, typed and defaulted; every file under configs/ is one."""

from pathlib import Path

import pytest

from capstext import config as settings
from capstext.errors import CapstextError, UsageError

ROOT = Path(__file__).parent.parent
COMPARISONS = sorted((ROOT / "configs" / "compare").glob("*.yaml"))
CONFIGS = sorted(set((ROOT / "configs").rglob("*.yaml")) - set(COMPARISONS))


def written(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_config_builds_its_model_and_says_how_to_run_it(path: Path) -> None:
    from capstext.preparation import refuse_bad_settings

    refuse_bad_settings(settings.load(path))
    header = path.read_text()
    assert f"capstext train {path.relative_to(ROOT)}" in header


@pytest.mark.parametrize("path", COMPARISONS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_comparison_plans_runs_that_can_be_built_and_says_how_to_run_it(path: Path) -> None:
    from capstext.comparison.grid import load
    from capstext.comparison.running import cells
    from capstext.preparation import refuse_bad_settings

    for cell in cells(load(path)):
        for choice in cell.choices or ({},):
            refuse_bad_settings(settings.changed(cell.config, choice))
    assert f"capstext compare {path.relative_to(ROOT)}" in path.read_text()


def test_a_config_for_the_other_command_is_told_apart(tmp_path: Path) -> None:
    from capstext.comparison.grid import load

    comparison, run = COMPARISONS[0], CONFIGS[0]
    with pytest.raises(UsageError, match=f"capstext compare {comparison}"):
        settings.load(comparison)
    with pytest.raises(UsageError, match=f"capstext train {run}"):
        load(run)


def test_a_config_read_back_from_its_plain_values_is_the_same() -> None:
    config = settings.parse({"model": {"name": "capsule-a", "filters": 8}, "data": {"fold": 3}})
    assert settings.parse(config.as_dict()) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle: capsule-a", "unknown setting modle; did you mean model?"),
        ("training: {epoch: 3}", "unknown setting training.epoch; did you mean training.epochs?"),
        ("training: {epochs: many}", "training.epochs: expected int, found 'many'"),
        ("training: {epochs: 1.5}", "training.epochs: expected int, found 1.5"),
        ("training: {epochs: 0}", "training.epochs: 0 is outside 1 to inf"),
        ("tokens: {lowercase: 'no'}", "tokens.lowercase: expected bool, found 'no'"),
        ("tokens: {kind: wrod}", "tokens.kind: 'wrod' is none of its values; did you mean word?"),
        ("data: {fold: 10}", "data.fold: 10 is outside 0 to 9"),
        ("data: 3", "data: expected a section of settings, found 3"),
        ("- 1", "expected sections such as data and model"),
        ("[data, model]: mr", "run.yaml:1: not valid YAML: ['data', 'model'] is no key; give a word"),
        ("training: {{epochs: 3}: 4}", "is no key; give a word"),
        ('data: {name: "texts/\\0.csv"}', "is no path"),
    ],
)
def test_a_wrong_setting_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        settings.load(written(tmp_path, text))
    assert message in str(error.value)


def test_numbers_that_yaml_reads_as_strings_are_numbers(tmp_path: Path) -> None:
    config = settings.load(written(tmp_path, "training: {learning_rate: 1e-3}"))
    assert config.training.learning_rate == 1e-3


def test_a_key_given_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"run.yaml:3: .*the key epochs stands twice"):
        settings.load(written(tmp_path, "training:\n  epochs: 1\n  epochs: 2\n"))


def test_broken_yaml_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"run.yaml:\d: not valid YAML"):
        settings.load(written(tmp_path, "training:\n  epochs: [1\n"))


def test_a_missing_config_is_a_failure_not_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(CapstextError, match="no such config file") as error:
        settings.load(tmp_path / "absent.yaml")
    assert error.value.exit_code == 1


@pytest.mark.parametrize(
    "value", ["../secrets.csv", "/etc/passwd", "sub/../../other.csv", "..", "~/other.csv"]
)
def test_a_path_that_leaves_the_configs_folder_is_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leaves the config's folder"):
        settings.load(written(tmp_path, f"data: {{name: {value}}}"))
    assert settings.load(None, overrides=[f"data.name={value}"]).data.name == value


def test_a_path_in_a_config_is_seen_from_its_folder_and_a_name_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "mr").mkdir()
    (tmp_path / "mine.csv").write_text("text,label\n")
    texts, vectors = "data: {name: mine.csv}", "embeddings: {vectors: elsewhere.bin}"
    config = settings.load(written(tmp_path, f"{texts}\n{vectors}"))
    assert config.data.name == str(tmp_path / "mine.csv")
    assert config.embeddings.vectors == "elsewhere.bin"
    assert settings.load(written(tmp_path, "data: {name: mr}")).data.name == "mr"


@pytest.mark.parametrize("name", ["reviews.csv", "mr", "folder/"])
def test_texts_in_the_place_of_a_config_are_answered_with_the_option_for_them(name: str) -> None:
    with pytest.raises(UsageError, match=f"--data {Path(name)}"):
        settings.load(Path(name))


def test_default_options_of_a_name_stay_until_another_name_is_chosen() -> None:
    assert settings.parse({"routing": {"iterations": 2}}).routing.options == {
        "softmax": "leaky-sampled",
        "iterations": 2,
    }
    assert settings.parse({"routing": "em"}).routing.options == {}


def test_set_changes_one_setting_and_keeps_the_others(tmp_path: Path) -> None:
    path = written(tmp_path, "model: capsule-a\ntraining: {epochs: 7, seed: 3}")
    config = settings.load(path, overrides=["training.seed=5", "model.filters=8", "data.name=trec"])
    assert (config.training.epochs, config.training.seed) == (7, 5)
    assert (config.model.name, config.model.options) == ("capsule-a", {"filters": 8})
    assert config.data.name == "trec"


@pytest.mark.parametrize("override", ["training.epochs", "=3"])
def test_set_without_key_or_value_is_refused(override: str) -> None:
    with pytest.raises(UsageError, match=r"expected section.key=value"):
        settings.load(None, overrides=[override])


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"model": {"name": "capsule-c"}}, "unknown model 'capsule-c'; did you mean capsule-"),
        ({"model": {3: 4}}, "unknown setting model.3"),
        ({"model": {"fliters": 3}}, "unknown setting model.fliters; did you mean model.filters?"),
        ({"routing": {"name": "dinamic"}}, "unknown routing 'dinamic'; did you mean dynamic?"),
        ({"routing": {"iteratoins": 2}}, "did you mean routing.iterations?"),
        ({"routing": {"iterations": 0}}, "iterations must be at least 1, not 0"),
        ({"routing": {"softmax": "hard"}}, "'hard'"),
    ],
)
def test_wrong_options_of_model_and_routing_are_named(section: dict[str, object], message: str) -> None:
    from capstext.models import build_network

    with pytest.raises(UsageError) as error:
        build_network(settings.parse(section), in_dim=8, classes=2)
    assert message in str(error.value)
