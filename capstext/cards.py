"""The README.md of a run folder: what the model is, what it was trained on, how good it is, how to use it."""

from typing import Any

import yaml

from capstext.config import Config
from capstext.data.sources import Corpus
from capstext.version import VERSION


def card(config: Config, corpus: Corpus, metrics: dict[str, Any], *, command: str) -> str:
    """Markdown with the front matter that the hub reads."""
    front = {
        "library_name": "capstext",
        "pipeline_tag": "text-classification",
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
            f"A text classifier with {len(corpus.classes)} classes"
            f"{', several a text' if corpus.multi_label else ''}, trained by capstext {VERSION} on "
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
            "    capstext classify THIS_FOLDER texts.txt",
            "",
            "or, in Python, `import capstext` and then "
            '`transformers.pipeline("text-classification", model="THIS_FOLDER")`.',
            "",
        ]
    )


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f}"
