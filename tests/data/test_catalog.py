import os
from pathlib import Path

import pytest

from capstext.data.catalog import DATASETS, NAMES, KnownDataset, known_dataset

README = Path(__file__).parents[2] / "data" / "README.md"
SAMPLE = README.parent / "sample"


def readme_row(known: KnownDataset) -> str:
    sizes = ", ".join(f"{split} {rows:,}" for split, rows in known.splits.items())
    hub = f"{known.hub.id} at `{known.hub.revision}`" if known.hub else "none"
    labels = f"{len(known.classes)}, several a text" if known.multi_label else str(len(known.classes))
    protocol = f"{known.folds} folds" if known.folds else "official test"
    title = f"{known.title} ({known.language}). {known.source}. {known.note}".strip()
    return f"| {known.name} | {title} | {sizes} | {labels} | {protocol} | {known.licence} | {hub} |"


@pytest.mark.parametrize("known", DATASETS.values(), ids=DATASETS)
def test_the_readme_says_what_the_catalog_says(known):
    assert readme_row(known) in README.read_text()


def test_names_are_unique_and_found_in_any_case():
    assert len(NAMES) == sum(1 + len(known.aliases) for known in DATASETS.values())
    assert known_dataset("MR") is known_dataset("movie-reviews") is DATASETS["mr"]
    assert known_dataset("SST-2") is DATASETS["sst2"]
    assert known_dataset("nothing") is None


@pytest.mark.parametrize("known", DATASETS.values(), ids=DATASETS)
def test_an_entry_is_complete(known):
    assert known.source
    assert known.licence
    assert "train" in known.splits
    assert len(set(known.classes)) == len(known.classes) >= 2
    assert (known.folds is not None) == (known.protocol == "folds")
    assert set(known.extra_training) < set(known.splits)
    if known.protocol == "official":
        assert any(split.startswith("test") for split in known.splits)
    if known.hub:
        assert set(known.hub.renamed.values()) <= set(known.classes)
        assert len(known.hub.revision) == 40 or known.hub.revision == "refs/convert/parquet"


def test_every_entry_has_the_name_of_its_folder_and_its_classes():
    pq = pytest.importorskip("pyarrow.parquet")
    datasets = pytest.importorskip("datasets")
    home = os.environ.get("CAPSTEXT_DATA")
    if not home:
        pytest.skip("CAPSTEXT_DATA is not set")
    for known in DATASETS.values():
        schema = pq.read_schema(Path(home, known.name, "train.parquet"))
        feature = datasets.Features.from_arrow_schema(schema)[known.label_column]
        assert tuple(getattr(feature, "feature", feature).names) == known.classes
        for split, rows in known.splits.items():
            assert pq.read_metadata(Path(home, known.name, f"{split}.parquet")).num_rows <= rows


def test_the_sample_texts_are_short_plain_text():
    samples = sorted(SAMPLE.glob("*.txt"))
    assert len(samples) == 6
    for path in samples:
        text = path.read_text(encoding="utf-8")
        assert 5 < len(text.split()) < 60
        assert text.endswith("\n")
