import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from made_records import folds, made, seeds

from capstext.comparison.report.cells import Cell
from capstext.comparison.report.error_plots import confusion, most_confused, pooled_bins
from capstext.comparison.report.results import tables
from capstext.comparison.report.tables import escaped
from capstext.comparison.report.writing import file_name, write
from capstext.errors import CapstextError

EVIL = "<script>alert('x')</script> & \"own\" | $a_{b$ `c` [d](javascript:e)"
TOPICS = tuple(f"topic {number}" for number in range(13))


def small():
    return [
        *folds(3, dataset="mr", model="capsule-b", accuracy=0.9),
        *folds(3, dataset="mr", model="cnn-non-static", accuracy=0.7),
        *seeds(2, dataset="reuters90", model="capsule-b", several=True, classes=TOPICS, never=(2,)),
        *seeds(2, dataset="reuters90", model="tf-idf", embeddings="none", several=True, classes=TOPICS),
    ]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return folder, write(small(), folder)


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def test_all_files_are_made_and_named(written):
    folder, paths = written
    assert all(path.is_file() and path.stat().st_size for path in paths)
    names = {path.relative_to(folder).as_posix() for path in paths}
    assert {"results.json", "results.md", "results.html", "results/mr.md", "results/reuters90.md"} <= names
    for what in ("scores", "time", "parameters", "confusion", "reliability"):
        assert f"results/mr-{what}.svg" in names


def test_the_same_runs_give_the_same_bytes(written, tmp_path):
    folder, paths = written
    write(small()[::-1], tmp_path)
    for path in paths:
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes(), path.name


def test_pictures_in_markdown_exist_and_are_svg(written):
    folder, _ = written
    for page in (folder / "results").glob("*.md"):
        links = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
        assert len(links) == 5
        for link in links:
            assert ElementTree.parse(page.parent / link).getroot().tag.endswith("svg")


def test_the_overview_leads_to_every_page(written):
    folder, _ = written
    links = re.findall(r"\]\(([^)]+\.md)\)", (folder / "results.md").read_text())
    assert links == ["results/mr.md", "results/reuters90.md"]
    assert all((folder / link).is_file() for link in links)


def test_a_page_tells_mean_difference_verdict_and_published_figure(written):
    folder, _ = written
    text = (folder / "results" / "mr.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("| capsule-b | glove |") and "±" in line)
    assert re.search(r"\d\d\.\d ± \d\.\d", row)
    assert "cnn-non-static (glove)" in row
    assert "better on these rows" in row  # three folds are too few for the other test
    assert row.endswith("| 82.3 ¹ |")
    assert "\n1. Zhao et al. 2018" in text
    assert "Tree-LSTM" in text


def test_settings_of_one_run_and_folders_stay_out_of_all_pages(written):
    _, paths = written
    for path in paths:
        assert "/somewhere" not in path.read_text(), path.name


def test_losses_are_told(tmp_path):
    records = [*folds(10, accuracy=0.6), *folds(10, model="cnn", accuracy=0.9)]
    write(records, tmp_path)
    assert re.search(r"Worse: capsule-b \(glove\) −\d", (tmp_path / "results.md").read_text())


def test_a_subset_of_a_known_data_set_is_called_one(tmp_path):
    classes = ("World", "Sports", "Business", "Sci/Tech")
    write(seeds(2, dataset="ag_news", classes=classes, rows=100), tmp_path)
    assert "a subset: 1,100 of 120,000 published training rows" in (tmp_path / "results.md").read_text()
    assert "a subset: 1,100 of 120,000" in (tmp_path / "results" / "ag_news.md").read_text()


def test_the_page_asks_for_nothing_from_outside(written):
    folder, _ = written
    for tag, attributes in Tags((folder / "results.html").read_text()).found:
        assert tag not in ("link", "iframe", "object")
        assert attributes.get("src", "data:image/svg+xml;base64,").startswith("data:image/svg+xml;base64,")
        assert attributes.get("href", "#").startswith("#")


def test_links_inside_the_page_lead_somewhere(written):
    folder, _ = written
    tags = Tags((folder / "results.html").read_text()).found
    targets = {attributes["id"] for _, attributes in tags if "id" in attributes}
    assert {a["href"][1:] for tag, a in tags if tag == "a"} <= targets


def test_names_are_shown_and_never_run(tmp_path):
    records = [
        made(dataset=EVIL, model=model, embeddings=EVIL, classes=(EVIL, "b\x00\n")) for model in (EVIL, "cnn")
    ]
    paths = write(records, tmp_path)
    tags = Tags((tmp_path / "results.html").read_text())
    assert [tag for tag, _ in tags.found].count("script") == 1
    assert any(EVIL in text for text in tags.texts)
    for path in paths:
        assert tmp_path in path.parents
        if path.suffix == ".md":
            assert "<script" not in path.read_text()
            assert "[d](javascript" not in path.read_text().replace("\\[d]", "")
        if path.suffix == ".svg":
            ElementTree.parse(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ag_news", "ag_news"),
        ("a|b", r"a\|b"),
        ("<b> & *c*", r"&lt;b&gt; &amp; \*c\*"),
        ("__init__", r"\_\_init\_\_"),
        ("two\nlines", "two lines"),
        ("# no heading", r"\# no heading"),
        ("78.3 ± 0.9", "78.3 ± 0.9"),
    ],
)
def test_markdown_is_escaped(text, expected):
    assert escaped(text) == expected


def test_one_run_of_one_model_is_reported(tmp_path):
    write([made(dataset="own")], tmp_path)
    text = (tmp_path / "results.md").read_text()
    assert re.search(r"\| capsule-b \| glove \| \*\*\d\d\.\d\*\* \|", text)
    assert "no capsule network stands beside a baseline yet" in text
    (row,) = json.loads((tmp_path / "results.json").read_text())
    assert (row["n"], row["std"], row["reference"]) == (1, None, None)


def test_results_are_read_without_nan(written):
    folder, _ = written

    def refuse(value):
        raise AssertionError(value)

    rows = json.loads((folder / "results.json").read_text(), parse_constant=refuse)
    assert {(row["dataset"], row["metric"]) for row in rows} == {
        ("mr", "accuracy"),
        ("reuters90", "micro_f1"),
        ("reuters90", "samples_f1"),
        ("reuters90", "exact_match"),
    }


def test_files_of_other_data_sets_are_left_alone(tmp_path):
    write([made(dataset="first")], tmp_path)
    before = (tmp_path / "results" / "first.md").read_bytes()
    write([made(dataset="second")], tmp_path)
    assert (tmp_path / "results" / "first.md").read_bytes() == before


def test_two_protocols_and_two_splits_have_pictures_of_their_own(tmp_path):
    records = [*folds(2, dataset="d"), *seeds(2, dataset="d", splits=("test", "test_full"))]
    write(records, tmp_path)
    assert len(list((tmp_path / "results").glob("*-scores.svg"))) == 3


def test_names_that_differ_in_odd_letters_only_have_files_of_their_own():
    assert file_name("ag_news") == "ag_news"
    assert len({file_name(name) for name in ("a/b", "a b", "a-b", "../a-b", "字")}) == 5
    assert all("/" not in file_name(name) for name in ("a/b", "../..", "字"))


def test_missing_matplotlib_is_named_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CapstextError, match=r"matplotlib is not installed; pip install 'capstext\[report\]'"):
        write(small(), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_no_runs_are_refused(tmp_path):
    with pytest.raises(CapstextError, match="no finished runs"):
        write([], tmp_path)


def only_cell(records) -> Cell:
    (table,) = tables(records)
    return table.cells[0]


def test_confusion_of_single_labels_is_that_of_the_metrics():
    records = folds(3, classes=("a", "b", "c"), never=(1,))
    expected = sum(np.array(record.tests["test"]["confusion"]) for record in records)
    assert (confusion(only_cell(records)) == expected).all()


def test_confusion_of_several_labels_counts_what_was_wrongly_added():
    found = confusion(only_cell([made(several=True, classes=("a", "b", "c"))]))
    answers = made(several=True, classes=("a", "b", "c")).answers["test"]
    expected = np.zeros((3, 3), int)
    for truth, predicted in zip(answers.labels, answers.predicted, strict=True):
        for i in np.flatnonzero(truth):
            for j in np.flatnonzero(predicted):
                expected[i, j] += i == j or not truth[j]
    assert (found == expected).all()


def test_of_many_classes_the_most_confused_are_shown():
    counted = np.diag([9] * 6)
    counted[1, 4], counted[4, 2], counted[5, 0] = 8, 7, 1
    assert most_confused(counted, 3) == [1, 2, 4]
    assert most_confused(counted, 6) == [0, 1, 2, 3, 4, 5]


def test_reliability_is_pooled_over_the_runs():
    records = folds(3)
    bins = pooled_bins(only_cell(records))
    rows = sum(record.tests["test"]["rows"] for record in records)
    right = sum(record.tests["test"]["accuracy"] * record.tests["test"]["rows"] for record in records)
    assert sum(one["count"] for one in bins) == rows
    assert sum(one["count"] * one["accuracy"] for one in bins) == pytest.approx(right)
