import json
import pickle
import stat
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_runs import CLASSES, TEXTS, save_small_run

from capstext import files, models, runs, tokenizers
from capstext.batching import pad
from capstext.config import parse
from capstext.errors import CapstextError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_small_run(tmp_path / "run")
    return tmp_path / "run"


def rewrite(folder: Path, name: str, content: bytes) -> None:
    """Change a part and make its checksum fit, as somebody might who does it on purpose."""
    (folder / name).write_bytes(content)
    sums = json.loads((folder / runs.CHECKSUMS).read_text())
    sums["sha256"][name] = files.sha256(folder / name)
    (folder / runs.CHECKSUMS).write_text(json.dumps(sums))


def change_config(folder: Path, **changes: object) -> None:
    values = json.loads((folder / runs.CONFIG).read_text())
    values["capstext"] |= changes
    rewrite(folder, runs.CONFIG, json.dumps(values).encode())


def fault(folder: Path) -> str:
    with pytest.raises(CapstextError) as raised:
        runs.load(folder)
    message = str(raised.value)
    assert "\n" not in message
    assert raised.value.exit_code == 1
    return message


def test_what_a_killed_save_left_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".model.safetensors.99999.tmp").write_bytes(b"the beginning")
    save_small_run(tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_a_loaded_model_answers_as_the_saved_one(tmp_path: Path) -> None:
    model = save_small_run(tmp_path)
    run = runs.load(tmp_path)
    ids, mask = pad(tokenizers.encode(run.tokenizer, TEXTS, 16).ids, padding_id=0)
    with torch.inference_mode():
        torch.testing.assert_close(
            run.model.calibrated(ids, mask), model.calibrated(ids, mask), rtol=0, atol=1e-5
        )
    for name, tensor in model.state_dict().items():
        assert torch.equal(run.model.state_dict()[name], tensor), name
    assert not run.model.training
    assert run.classes == CLASSES
    assert not run.multi_label
    assert run.metrics == {"test": {"accuracy": 0.5}}
    assert run.config == parse(run.config.as_dict())
    assert run.folder == tmp_path


def test_a_run_outlives_the_defaults_of_its_day(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = runs.load(folder).config
    assert config.model.options["stride"] == 1
    assert config.routing.options["iterations"] == 3
    later = partial(models.MODELS["capsule-b"], stride=2, window=2, orphan=False)
    monkeypatch.setitem(models.MODELS, "capsule-b", later)
    run = runs.load(folder)
    assert run.config == config
    assert run.model.network.branches[0].ngrams.stride == 1


def test_loading_leaves_the_callers_random_numbers_alone(folder: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    runs.load(folder)
    assert torch.equal(torch.rand(4), expected)


def test_a_run_folder_holds_the_declared_parts_and_others_can_read_them(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {*runs.PARTS, runs.CARD, runs.CHECKSUMS}
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o044 for path in folder.iterdir())
    sums = json.loads((folder / runs.CHECKSUMS).read_text())
    assert sums["sha256"] == {name: files.sha256(folder / name) for name in (*runs.PARTS, runs.CARD)}


@pytest.mark.parametrize("name", [*runs.PARTS, runs.CHECKSUMS])
def test_a_missing_part_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert fault(folder).startswith(f"{folder / name}: missing")


@pytest.mark.parametrize("name", [*runs.PARTS, runs.CHECKSUMS])
def test_a_truncated_part_is_named(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    assert fault(folder).startswith(f"{folder / name}: damaged")


@pytest.mark.parametrize("name", [*runs.PARTS, runs.CHECKSUMS])
def test_garbage_in_place_of_a_part_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(bytes(range(256)) * 40)
    assert fault(folder).startswith(f"{folder / name}: damaged")


@pytest.mark.parametrize("name", runs.PARTS)
def test_one_flipped_bit_is_noticed(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-3] ^= 1
    (folder / name).write_bytes(content)
    assert fault(folder).startswith(f"{folder / name}: damaged")


@pytest.mark.parametrize("name", [runs.WEIGHTS, runs.TOKENIZER, runs.CONFIG, runs.METRICS])
def test_garbage_with_a_fitting_checksum_is_still_named(folder: Path, name: str) -> None:
    rewrite(folder, name, b"\x00 no such format \xff")
    assert fault(folder).startswith(f"{folder / name}: ")


def test_checksums_that_are_no_table_are_named(folder: Path) -> None:
    (folder / runs.CHECKSUMS).write_text('{"sha256": ["a", "b"]}')
    assert fault(folder).startswith(f"{folder / runs.CHECKSUMS}: damaged")


def test_a_card_may_be_edited_or_removed(folder: Path) -> None:
    (folder / runs.CARD).write_text("# my notes\n")
    runs.load(folder)
    (folder / runs.CARD).unlink()
    runs.load(folder)


def test_a_newer_format_asks_for_an_upgrade(folder: Path) -> None:
    change_config(folder, format=runs.FORMAT + 1, version="9.0")
    (folder / runs.METRICS).unlink()
    message = fault(folder)
    assert message.startswith(f"{folder / runs.CONFIG}: written by capstext 9.0 in format 2")
    assert message.endswith("upgrade capstext")


def test_weights_of_another_shape_are_refused(folder: Path, tmp_path: Path) -> None:
    save_small_run(tmp_path / "other", classes=("a", "b"))
    rewrite(folder, runs.WEIGHTS, (tmp_path / "other" / runs.WEIGHTS).read_bytes())
    message = fault(folder)
    assert message.startswith(f"{folder / runs.WEIGHTS}: does not fit config.json: ")
    assert "expected [" in message


@pytest.mark.parametrize("change", ["drop", "add"])
def test_no_weight_is_missing_or_too_much(folder: Path, change: str) -> None:
    weights = load_file(folder / runs.WEIGHTS)
    if change == "drop":
        del weights["calibration.offset"]
    else:
        weights["surplus"] = torch.zeros(2)
    save_file(weights, folder / runs.WEIGHTS)
    rewrite(folder, runs.WEIGHTS, (folder / runs.WEIGHTS).read_bytes())
    found = {"drop": "lacks calibration.offset", "add": "holds surplus"}[change]
    assert found in fault(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "1"}, "format number"),
        ({"config": {"model": {"name": "capsule-z"}}}, "unknown model 'capsule-z'"),
        ({"config": {"moddel": {}}}, "unknown setting moddel"),
        ({"config": []}, "config"),
        ({"embedding": {"kind": "smells"}}, "unknown kind of embedding 'smells'"),
        ({"embedding": {"kind": "words", "rows": 3}}, "argument"),
        ({"embedding": None}, "embedding"),
    ],
)
def test_a_config_that_makes_no_sense_is_named(folder: Path, changes: dict[str, object], said: str) -> None:
    change_config(folder, **changes)
    message = fault(folder)
    assert message.startswith(f"{folder / runs.CONFIG}: ")
    assert said in message


@pytest.mark.parametrize("labels", [{"0": "a", "2": "b"}, [], None, {}])
def test_label_names_must_number_the_classes(folder: Path, labels: object) -> None:
    values = json.loads((folder / runs.CONFIG).read_text()) | {"id2label": labels}
    rewrite(folder, runs.CONFIG, json.dumps(values).encode())
    assert "id2label" in fault(folder)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert fault(tmp_path / "none") == f"{tmp_path / 'none'}: no such run folder"


class Trap:
    """Unpickling this makes a file: proof that something was run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["model.pt", "pytorch_model.bin", "model.pkl", "model.pth", "no_suffix"])
def test_pickle_is_refused_and_never_run(tmp_path: Path, name: str) -> None:
    sprung = tmp_path / "sprung"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / name).write_bytes(pickle.dumps(Trap(sprung)))
    assert "refused: pickle can run code" in fault(tmp_path / "model" / name)
    if name != "no_suffix":
        assert "refused: pickle can run code" in fault(tmp_path / "model")
    assert not sprung.exists()


def test_pickled_weights_under_the_name_of_safetensors_do_not_load(folder: Path, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    rewrite(folder, runs.WEIGHTS, pickle.dumps(Trap(sprung)))
    assert fault(folder).startswith(f"{folder / runs.WEIGHTS}: damaged")
    assert not sprung.exists()


def test_a_file_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "a model is a run folder" in fault(tmp_path / "notes.txt")


def test_an_empty_folder_is_not_a_run(tmp_path: Path) -> None:
    assert fault(tmp_path).startswith(f"{tmp_path / runs.CONFIG}: missing")


def test_metrics_that_are_no_numbers_are_not_written(tmp_path: Path) -> None:
    run = runs.load(_saved(tmp_path / "run"))
    with pytest.raises(ValueError, match="JSON"):
        runs.save(
            tmp_path / "again",
            model=run.model,
            tokenizer=run.tokenizer,
            config=run.config,
            classes=run.classes,
            multi_label=False,
            metrics={"accuracy": float("nan")},
            card="",
        )
    assert not (tmp_path / "again" / runs.CHECKSUMS).exists()


def test_what_was_loaded_is_saved_alike(folder: Path, tmp_path: Path) -> None:
    run = runs.load(folder)
    runs.save(
        tmp_path / "again",
        model=run.model,
        tokenizer=run.tokenizer,
        config=run.config,
        classes=run.classes,
        multi_label=run.multi_label,
        metrics=run.metrics,
        card="# a small model\n",
    )
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def _saved(folder: Path) -> Path:
    save_small_run(folder)
    return folder
