import os
from pathlib import Path

import pytest

from capstext.data.catalog import NAMES, known_dataset
from capstext.data.image_catalog import IMAGE_DATASETS, KnownImages, known_images

README = Path(__file__).parents[2] / "data" / "README.md"


def readme_row(known: KnownImages) -> str:
    sizes = ", ".join(f"{split} {rows:,}" for split, rows in known.splits.items())
    labels = f"{len(known.classes)}, several an image" if known.multi_label else str(len(known.classes))
    if known.hub:
        where = f"hub {known.hub.id} at `{known.hub.revision}`"
    elif known.package:
        where = f"package {known.package}"
    else:
        where = f"made from {known.made_from}" if known.made_from else f"own folder: {known.files}"
    title = f"{known.title}. {known.source}. {known.note}".strip()
    return f"| {known.name} | {title} | {known.size} | {sizes} | {labels} | {known.licence} | {where} |"


@pytest.mark.parametrize("known", IMAGE_DATASETS.values(), ids=IMAGE_DATASETS)
def test_the_readme_says_what_the_catalog_says(known):
    assert readme_row(known) in README.read_text()


@pytest.mark.parametrize("known", IMAGE_DATASETS.values(), ids=IMAGE_DATASETS)
def test_an_entry_is_complete(known):
    assert known.source
    assert known.licence
    assert {"train", "test"} <= set(known.splits)
    assert len(set(known.classes)) == len(known.classes) >= 2
    ways = [known.hub, known.package, known.made_from, known.files]
    assert sum(map(bool, ways)) == 1, "one way to get it"
    assert known.made_from in (None, *IMAGE_DATASETS)
    if known.hub:
        assert len(known.hub.revision) == 40
        assert set(known.hub.renamed.values()) <= set(known.classes)


def test_names_are_found_in_any_case_and_no_set_of_texts_has_them():
    assert known_images("MNIST") is IMAGE_DATASETS["mnist"]
    assert known_images("Multi-MNIST") is IMAGE_DATASETS["multimnist"]
    assert known_images("mr") is None
    names = [name for known in IMAGE_DATASETS.values() for name in (known.name, *known.aliases)]
    assert len(set(names)) == len(names)
    assert not set(names) & set(NAMES)
    assert known_dataset("mnist") is None


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_local_copies_have_these_classes_and_rows(name):
    import datasets
    import pyarrow.parquet as pq

    home = os.environ.get("CAPSTEXT_DATA")
    if not home or not Path(home, name).is_dir():
        pytest.skip("CAPSTEXT_DATA has no copy")
    known = IMAGE_DATASETS[name]
    for split, rows in known.splits.items():
        table = Path(home, name, f"{split}.parquet")
        features = datasets.Features.from_arrow_schema(pq.read_schema(table))
        assert tuple(features["label"].names) == known.classes
        assert pq.read_metadata(table).num_rows == rows
