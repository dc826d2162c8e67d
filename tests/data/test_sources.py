import gzip
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import datasets
import pytest

from capstext import hub
from capstext.data import sources
from capstext.data.catalog import DATASETS
from capstext.data.sources import load, locate
from capstext.errors import CapstextError, UsageError

HOME = os.environ.get("CAPSTEXT_DATA")
needs_data = pytest.mark.skipif(not HOME, reason="CAPSTEXT_DATA is not set")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Every test has a cache of its own, so that no result comes from an earlier run."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def written(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(corpus: sources.Corpus, split: str = "train") -> list[tuple[str, list[str]]]:
    return [(row["text"], [corpus.classes[label] for label in row["labels"]]) for row in corpus.splits[split]]


CSV = "text,label\ngood,pos\nbad,neg\nfine,pos\n"
EXPECTED = [("good", ["pos"]), ("bad", ["neg"]), ("fine", ["pos"])]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV),
        ("a.tsv", CSV.replace(",", "\t")),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("a.jsonl", "".join(json.dumps({"text": t, "label": labels[0]}) + "\n" for t, labels in EXPECTED)),
        ("a.jsonl", "".join(json.dumps({"text": t, "labels": labels}) + "\n" for t, labels in EXPECTED)),
    ],
    ids=["csv", "tsv", "csv-gz", "jsonl", "jsonl-lists"],
)
def test_own_tables_become_a_corpus(tmp_path, name, content):
    corpus = load(written(tmp_path, name, content))
    assert rows(corpus) == EXPECTED
    assert corpus.classes == ("neg", "pos")
    assert not corpus.multi_label
    assert corpus.protocol == "official"
    assert corpus.splits["train"].features == datasets.Features(
        text=datasets.Value("string"), labels=datasets.List(datasets.Value("int64"))
    )
    assert corpus.text_column == "text"
    assert corpus.label_column in ("label", "labels")


def test_a_parquet_file_and_a_saved_dataset_become_the_same_corpus(tmp_path):
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=["pos", "neg"])
    )
    table = datasets.Dataset.from_dict(
        {"text": ["good", "bad", "fine"], "label": [0, 1, 0]}, features=features
    )
    table.to_parquet(tmp_path / "a.parquet")
    datasets.DatasetDict({"train": table, "dev": table}).save_to_disk(tmp_path / "saved")
    table.save_to_disk(tmp_path / "saved-one")
    for name in ("a.parquet", "saved", "saved-one"):
        corpus = load(tmp_path / name)
        assert rows(corpus) == EXPECTED
        assert corpus.classes == ("pos", "neg"), "the order of the class labels is kept"
    assert set(load(tmp_path / "saved").splits) == {"train", "validation"}


def test_a_dataset_folder_with_a_card_is_read(tmp_path):
    table = datasets.Dataset.from_dict({"sentence": ["a", None, "c"], "target": [2, 10, 2]})
    table.to_parquet(tmp_path / "train.parquet")
    written(
        tmp_path, "README.md", "---\nconfigs:\n- config_name: default\n  data_files: train.parquet\n---\n"
    )
    corpus = load(tmp_path)
    assert rows(corpus) == [("a", ["2"]), ("", ["10"]), ("c", ["2"])]
    assert corpus.classes == ("2", "10"), "numbers are sorted as numbers"
    assert (corpus.text_column, corpus.label_column) == ("sentence", "target")


def test_folders_of_classes_and_of_splits(tmp_path):
    for split in ("train", "test"):
        for name, text in (("pos", "good"), ("neg", "bad"), ("neg", "worse")):
            written(tmp_path, f"{split}/{name}/{text}.txt", f"{text} {split}\n")
    corpus = load(tmp_path)
    assert rows(corpus) == [("bad train", ["neg"]), ("worse train", ["neg"]), ("good train", ["pos"])]
    assert rows(corpus, "test")[0] == ("bad test", ["neg"])
    assert rows(load(tmp_path / "train")) == rows(corpus)


def test_a_folder_with_a_table_a_split(tmp_path):
    written(tmp_path, "train.csv", CSV)
    written(tmp_path, "dev.csv", "text,label\nodd,other\n")
    corpus = load(tmp_path)
    assert corpus.classes == ("neg", "other", "pos")
    assert rows(corpus, "validation") == [("odd", ["other"])]
    written(tmp_path, "valid.csv", CSV)
    with pytest.raises(CapstextError, match="which table is which split"):
        load(tmp_path)


def test_a_string_of_json_is_one_label(tmp_path):
    content = '{"text": "x", "label": "a;b"}\n{"text": "y", "label": "c"}\n'
    assert load(written(tmp_path, "a.jsonl", content)).classes == ("a;b", "c")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,labels\nx,a|b\ny,a\nz,\n"),
        ("b.csv", 'text,labels\nx,"[""a"", ""b""]"\ny,a\nz,[]\n'),
        (
            "a.jsonl",
            '{"text":"x","labels":["a","b"]}\n{"text":"y","labels":["a"]}\n{"text":"z","labels":[]}\n',
        ),
    ],
)
def test_several_labels_make_a_multi_label_corpus(tmp_path, name, content):
    corpus = load(written(tmp_path, name, content))
    assert corpus.multi_label
    assert corpus.several_labels_in == {"train"}
    assert rows(corpus) == [("x", ["a", "b"]), ("y", ["a"]), ("z", [])]


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ("", CapstextError, r"a\.csv: no rows"),
        ("text,label\n", CapstextError, r"a\.csv: no rows"),
        ("text,label\ngood,pos\nfine,pos\n", CapstextError, r"'label' has one class only \(pos\)"),
        ("text,label\ngood,\nfine,\n", CapstextError, r"a\.csv: no labels"),
        (
            "text,label\ngood,a\nbad,b\n\nfine,\n",
            CapstextError,
            r"a\.csv:5: no label; mend it or pass --skip-bad",
        ),
        ("text,label\ngood,a\nbad,b,c\n", CapstextError, r"a\.csv:3: 3 fields where the header has 2"),
        ("text,x,z\ngood,1,2\n", UsageError, r"no column holds labels; columns found: text, x, z"),
    ],
)
def test_what_cannot_be_trained_on_is_told_in_one_line(tmp_path, content, kind, message):
    with pytest.raises(kind, match=message) as error:
        load(written(tmp_path, "a.csv", content))
    assert type(error.value) is kind
    assert "\n" not in str(error.value)


def test_bad_rows_are_skipped_and_counted_every_time(tmp_path):
    path = written(tmp_path, "a.csv", "text,label\ngood,a\nbad,b,c\nnone,\n\xe9,b\n".encode("latin-1"))
    for _ in range(2):
        corpus = load(path, skip_bad=True, errors="replace")
        assert rows(corpus) == [("good", ["a"]), ("\ufffd", ["b"])]
        told = "; ".join(corpus.notes)
        assert "1 × bad row skipped" in told
        assert "a.csv:3: 3 fields" in told
        assert "1 × character replaced" in told
        assert "1 × row without a label skipped, the first at" in told
        assert "a.csv:4" in told


def test_a_missing_column_is_a_usage_error(tmp_path):
    path = written(tmp_path, "a.csv", CSV)
    for option in ("text_column", "label_column"):
        with pytest.raises(UsageError, match="no column 'nope'; columns found: text, label"):
            load(path, **{option: "nope"})


def test_a_changed_file_is_read_again(tmp_path):
    path = written(tmp_path, "a.csv", CSV)
    assert len(load(path).splits["train"]) == 3
    written(tmp_path, "a.csv", CSV + "new,neg\n")
    assert len(load(path).splits["train"]) == 4
    same_size = CSV.replace("good", "best")
    os.utime(written(tmp_path, "a.csv", same_size), (1, 1))
    assert load(path).splits["train"][0]["text"] == "best"


def test_an_unchanged_file_keeps_its_fingerprint(tmp_path):
    path = written(tmp_path, "a.csv", CSV)
    first, again = (load(path).splits["train"]._fingerprint for _ in range(2))
    other = load(written(tmp_path, "b.csv", CSV.replace("fine,pos", "fine,neg"))).splits["train"]._fingerprint
    assert first == again != other


def test_labels_are_numbered_as_the_model_has_them_and_strange_ones_are_named(tmp_path):
    path = written(tmp_path, "a.csv", "text,label\ng,pos\nb,neg\nm,mixed\nn,mixed\no,odd\n")
    corpus = load(path, classes=("pos", "neg", "never"))
    assert rows(corpus) == [("g", ["pos"]), ("b", ["neg"])]
    assert corpus.classes == ("pos", "neg", "never")
    assert corpus.notes == (
        "split train: 3 rows left out, their labels unknown to the model: mixed (2), odd (1)",
    )
    with pytest.raises(CapstextError, match=r"none of its labels is a class of the model \(x, y\)"):
        load(path, classes=("x", "y"))
    assert (
        len(load(written(tmp_path, "b.csv", "text,label\ng,pos\n"), classes=("neg", "pos")).splits["train"])
        == 1
    )


def test_a_row_with_one_strange_label_among_several_is_left_out(tmp_path):
    path = written(tmp_path, "a.csv", "text,labels\nx,a|b\ny,a|z\nz,b\n")
    assert rows(load(path, classes=("a", "b"))) == [("x", ["a", "b"]), ("z", ["b"])]


def test_unlabelled_splits_of_a_dataset_are_left_out(tmp_path):
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["n", "p"]))
    train = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}, features=features)
    test = datasets.Dataset.from_dict({"text": ["c", "d"], "label": [-1, -1]}, features=features)
    datasets.DatasetDict({"train": train, "test": test}).save_to_disk(tmp_path / "saved")
    corpus = load(tmp_path / "saved")
    assert list(corpus.splits) == ["train"]
    assert corpus.notes == ("split test has no labels and is left out",)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("nothing.csv", CapstextError, "no such file: nothing.csv"),
        ("./nothing", CapstextError, "no such file: ./nothing"),
        ("mrr", UsageError, r"unknown data set 'mrr' \(and no file of that name\); did you mean mr\?"),
        ("sst3", UsageError, r"did you mean sst2\?"),
        ("zzzz", UsageError, "choose from: .*trec"),
    ],
)
def test_unknown_names_and_missing_files(name, kind, message):
    with pytest.raises(kind, match=message) as error:
        load(name)
    assert error.value.exit_code == (2 if kind is UsageError else 1)


def test_a_text_file_and_a_folder_without_classes_have_no_labels(tmp_path):
    with pytest.raises(CapstextError, match="a text file has no labels"):
        load(written(tmp_path, "a.txt", "x\n"))
    with pytest.raises(CapstextError, match="neither tables nor parquet files nor a folder of text files"):
        load(tmp_path)


NO_HUB = """
import time
start = time.monotonic()
from capstext.errors import CapstextError
from capstext.data.sources import load
try:
    load("nobody/nothing")
except CapstextError as error:
    print(error.exit_code, error, "|", time.monotonic() - start < 3)
"""


@pytest.mark.parametrize(
    "environment",
    [{"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_ENDPOINT": "http://192.0.2.1"}, {"HF_HUB_OFFLINE": "1"}],
    ids=["refused", "silent", "offline"],
)
def test_without_a_network_the_hub_fails_in_three_seconds_and_says_what_to_set(tmp_path, environment):
    environment = {**os.environ, "HF_HOME": str(tmp_path), "NO_PROXY": "*", **environment}
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        environment.pop(name, None)
    result = subprocess.run(
        [sys.executable, "-c", NO_HUB],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout.startswith("1 the hub cannot be reached and nobody/nothing is not in its cache")
    assert "HF_HUB_OFFLINE" in result.stdout
    assert "CAPSTEXT_DATA" in result.stdout
    assert result.stdout.strip().endswith("True")


def test_the_hub_is_asked_for_the_pinned_revision_and_its_names_become_ours(monkeypatch):
    asked = {}

    def load_dataset(name, revision):
        asked[name] = revision
        columns = {"text": ["g", "b"], "label": [1, 0], "label_text": ["positive", "negative"]}
        return datasets.DatasetDict(
            {split: datasets.Dataset.from_dict(columns) for split in ("train", "validation", "test", "extra")}
        )

    monkeypatch.delenv("CAPSTEXT_DATA", raising=False)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(hub, "reachable", lambda: True)
    corpus = load("sst2")
    assert asked == {"SetFit/sst2": "00ea8ccb7a54b4e3780a3e51aa3f80361ff849c0"}
    assert rows(corpus) == [("g", ["pos"]), ("b", ["neg"])]
    assert list(corpus.splits) == ["train", "validation", "test"]
    assert "train has 2 of 6,920 published rows" in corpus.notes[0]
    load("somebody/something@v2")
    assert asked["somebody/something"] == "v2"


def test_a_local_folder_comes_before_the_package_and_the_hub(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSTEXT_DATA", str(tmp_path))
    written(tmp_path, "mr/train.csv", CSV)
    assert locate(DATASETS["mr"]) == sources.Location("folder", str(tmp_path / "mr"))
    assert rows(load("mr")) == EXPECTED
    assert load("mr").protocol == "folds"
    monkeypatch.setenv("CAPSTEXT_DATA", str(tmp_path / "nothing"))
    with pytest.raises(CapstextError, match=r"CAPSTEXT_DATA names .*nothing, which is no folder"):
        load("mr")


def test_a_set_that_nobody_has_says_where_to_put_it(monkeypatch):
    monkeypatch.delenv("CAPSTEXT_DATA", raising=False)
    with pytest.raises(CapstextError, match="set CAPSTEXT_DATA to a folder that holds reuters90/"):
        load("reuters90")


def test_the_package_gives_movie_reviews_without_being_imported(monkeypatch):
    package = DATASETS["mr"].package
    if hub.packaged(package.module, package.file) is None:
        pytest.skip("the package movie-reviews is not installed")
    monkeypatch.delenv("CAPSTEXT_DATA", raising=False)
    start = time.monotonic()
    corpus = load("mr")
    assert time.monotonic() - start < 60
    assert {split: len(rows) for split, rows in corpus.splits.items()} == {
        "train": 6826,
        "validation": 852,
        "test": 852,
    }
    assert all(
        set(Counter(label for row in part["labels"] for label in row).values()) == {len(part) // 2}
        for part in corpus.splits.values()
    )
    texts = [text for part in corpus.splits.values() for text in part["text"]]
    assert len(set(texts)) == 8530
    assert corpus.classes == ("neg", "pos")
    assert "cut by us (stratified, seed 0)" in corpus.origin
    assert "movie_reviews" not in sys.modules


@needs_data
@pytest.mark.parametrize("name", DATASETS)
def test_every_known_set_loads(name):
    corpus = load(name)
    known = DATASETS[name]
    assert corpus.classes == known.classes
    assert set(corpus.splits) == set(known.splits)
    assert corpus.multi_label == known.multi_label
    assert corpus.protocol == known.protocol
    for split, part in corpus.splits.items():
        assert part.column_names == ["text", "labels"]
        if len(part) != known.splits[split]:
            assert any(note.startswith(f"{split} has {len(part):,} of") for note in corpus.notes)
    used = {label for part in corpus.splits.values() for row in part["labels"] for label in row}
    assert used == set(range(len(known.classes)))


@needs_data
def test_labels_agree_with_the_parquet_files():
    pq = pytest.importorskip("pyarrow.parquet")
    for name, column in (("trec", "label"), ("reuters_transfer", "labels")):
        corpus = load(name)
        for split, part in corpus.splits.items():
            table = pq.read_table(Path(HOME, name, f"{split}.parquet")).to_pydict()
            wanted = [label if isinstance(label, list) else [label] for label in table[column]]
            assert part["labels"][:] == wanted
            assert part["text"][:] == table["text"]


@needs_data
def test_the_transfer_task_trains_on_one_label_and_tests_on_several():
    corpus = load("reuters_transfer")
    assert not corpus.multi_label
    assert corpus.several_labels_in == {"test_multilabel", "test_full"}
    assert corpus.test_splits == ("test_multilabel", "test_full")
    assert min(map(len, corpus.split("test_multilabel")["labels"])) > 1
    with pytest.raises(
        UsageError, match="has no split 'test'; splits found: train, test_multilabel, test_full"
    ):
        corpus.split("test")


@needs_data
def test_extra_training_rows_are_named():
    assert load("sst2").extra_training == ("train_phrases",)


def test_many_rows_stay_in_a_file(tmp_path):
    path = written(tmp_path, "a.csv", "text,label\n" + "some words of a review,pos\nothers,neg\n" * 50_000)
    part = load(path).splits["train"]
    assert len(part) == 100_000
    assert part.cache_files, "texts are mapped from a file, not held in memory"


def test_two_folders_of_one_name_and_one_card_are_told_apart(tmp_path: Path) -> None:
    """The cache of `datasets` does not."""
    files = "  data_files:\n  - split: train\n    path: train.parquet\n"
    card = f"---\nconfigs:\n- config_name: default\n{files}---\n"
    for number in (1, 2):
        folder = tmp_path / str(number) / "same"
        folder.mkdir(parents=True)
        texts = [f"text {row} of {number}" for row in range(4 * number)]
        rows = {"text": texts, "label": ["a", "b"] * (2 * number)}
        datasets.Dataset.from_dict(rows).to_parquet(str(folder / "train.parquet"))
        (folder / "README.md").write_text(card)
        assert sources.load(folder).splits["train"]["text"][:] == texts
