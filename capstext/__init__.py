"""Text classification with capsule networks.

`from capstext import Classifier; Classifier.load("runs/reviews").predict(texts)`. Importing capstext costs
next to nothing: torch comes with the first use of Classifier, and transformers learns of our models when
somebody else imports it.
"""

from typing import TYPE_CHECKING, Any

from capstext.huggingface import register_when_imported
from capstext.version import VERSION as __version__

if TYPE_CHECKING:
    from capstext.classifier import Classifier

__all__ = ["Classifier", "__version__"]

register_when_imported()


def __getattr__(name: str) -> Any:
    if name == "Classifier":
        from capstext.classifier import Classifier

        return Classifier
    raise AttributeError(f"module 'capstext' has no attribute {name!r}")
