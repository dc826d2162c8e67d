"""The README.md of a run folder: what the model is, what it was trained on, how good it is, how to use it."""

from typing import Any

import yaml

from capstext.config import Config
from capstext.data.image_corpora import ImageCorpus
from capstext.data.sources import Corpus
from capstext.version import VERSION

USE = {
    "text": (
        "    capstext classify THIS_FOLDER texts.txt",
        "",
        "or, in Python, `import capstext` and then "
        '`transformers.pipeline("text-classification", model="THIS_FOLDER")`.',
    ),
    "image": ("    capstext classify THIS_FOLDER picture.png",),
}


def card(config: Config, corpus: Corpus | ImageCorpus, metrics: dict[str, Any], *, command: str) -> str:
    """Markdown with the front matter that the hub reads."""
    kind = "image" if isinstance(corpus, ImageCorpus) else "text"
    front = {
        "library_name": "capstext",
        "pipeline_tag": f"{kind}-classification",
        "tags": ["capsule-network", config.model.name, config.routing.name],
    }
    splits = [name for name in metrics if name == "validation" or name.startswith("test")]
    rows = [
        f"| {name} | {metrics[name]['rows']:,} | {_percent(metrics[name]['accuracy'])} "
        f"| {_percent(metrics[name]['macro']['f1'])} | {_percent(metrics[name]['micro']['f1'])} "
        f"| {_percent(metrics[name]['expected_calibration_error'])} |"
        for name in splits
    ]
    return "\n".join(
        [
            "---",
            yaml.safe_dump(front, sort_keys=False).strip(),
            "---",
            f"# {config.model.name} on {corpus.name}",
            "",
            f"A classifier of {kind}s with {len(corpus.classes)} classes"
            f"{', several at once' if corpus.multi_label else ''}, trained by capstext {VERSION} on "
            f"{corpus.origin} (seed {config.training.seed}, {metrics['parameters']:,} parameters, "
            f"{metrics['seconds']:.0f} s).",
            "",
            "| rows | number | accuracy % | macro-F1 % | micro-F1 % | calibration error % |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "The validation rows chose the epoch and calibrated the scores; the test rows were read once.",
            "",
            "Trained with",
            "",
            f"    {command}",
            "",
            "Use it with",
            "",
            *USE[kind],
            "",
        ]
    )


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f}"
