"""What `capstext data` tells of images: facts and findings, not yet printed."""

from typing import Any

import numpy as np

from capstext.data.image_catalog import KnownImages, known_images
from capstext.data.images import ImageCorpus, load_images, locate_images


def listed_images(known: KnownImages) -> dict[str, Any]:
    location = locate_images(known)
    return {
        "name": known.name,
        "title": known.title,
        "rows": sum(known.splits.values()),
        "splits": dict(known.splits),
        "classes": list(known.classes),
        "holds": f"images, {known.size}",
        "size": [known.height, known.width, known.channels],
        "protocol": "official",
        "licence": known.licence,
        "found": location.kind if location else None,
        "where": location.where if location else None,
    }


def image_facts(name: str, *, skip_bad: bool) -> dict[str, Any]:
    """What `capstext data info` shows."""
    corpus = load_images(name, skip_bad=skip_bad, for_training=False)
    facts: dict[str, Any] = {
        "name": corpus.name,
        "origin": corpus.origin,
        "size": str(corpus.shape),
        "labels": "several an image" if corpus.multi_label else "one an image",
        "notes": list(corpus.notes),
        "splits": {
            name: {"rows": len(split), "mean": round(float(split.pixels.mean()), 1)}
            for name, split in corpus.splits.items()
        },
        "classes": _class_counts(corpus),
    }
    if known := known_images(name):
        facts |= {"title": known.title, "source": known.source, "licence": known.licence, "note": known.note}
        facts["hub"] = f"{known.hub.id}@{known.hub.revision}" if known.hub else None
    return facts


def table_of_splits(facts: dict[str, Any]) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = [("split", "images", "mean of 0..255")]
    table += [(split, f"{found['rows']:,}", str(found["mean"])) for split, found in facts["splits"].items()]
    return table


def image_findings(name: str) -> tuple[list[str], dict[str, dict[str, int]], int]:
    """Findings of `capstext data check`, the classes, still to be judged, and the number of images."""
    corpus = load_images(name, skip_bad=True, for_training=False)
    return _findings(corpus), _class_counts(corpus), sum(map(len, corpus.splits.values()))


def _findings(corpus: ImageCorpus) -> list[str]:
    """Notes of the reading, blank images, images that stand twice."""
    findings = list(corpus.notes)
    hashes = {}
    for name, split in corpus.splits.items():
        flat = split.pixels.reshape(len(split), -1)
        hashes[name] = np.array([hash(row.tobytes()) for row in flat], dtype=np.int64)
        faults = {
            "images of one shade all over": int((flat.min(axis=1) == flat.max(axis=1)).sum()),
            "images that repeat another one": len(flat) - len(np.unique(hashes[name])),
        }
        findings += [f"split {name}: {count:,} {what}" for what, count in faults.items() if count]
    splits = list(hashes)
    for place, first in enumerate(splits):
        for second in splits[place + 1 :]:
            if both := len(np.intersect1d(hashes[first], hashes[second])):
                findings.append(f"{both:,} images stand in both {first} and {second}")
    return findings


def _class_counts(corpus: ImageCorpus) -> dict[str, dict[str, int]]:
    """Class -> split -> number of images."""
    counts = {name: split.labels.sum(axis=0).tolist() for name, split in corpus.splits.items()}
    return {
        name: {split: found[number] for split, found in counts.items()}
        for number, name in enumerate(corpus.classes)
    }
