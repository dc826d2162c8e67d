"""Text classification with capsule networks, and image classification on the same routing.

`from capstext import Classifier; Classifier.load("runs/reviews").predict(texts)`. Importing capstext costs
next to nothing: torch comes with the first use of a classifier, and transformers learns of our models when
somebody else imports it.
"""

from typing import TYPE_CHECKING, Any

from capstext.huggingface import register_when_imported
from capstext.version import VERSION as __version__

if TYPE_CHECKING:
    from capstext.classifier import Classifier
    from capstext.image_classifier import ImageClassifier

__all__ = ["Classifier", "ImageClassifier", "__version__"]

register_when_imported()


def __getattr__(name: str) -> Any:
    if name == "Classifier":
        from capstext.classifier import Classifier

        return Classifier
    if name == "ImageClassifier":
        from capstext.image_classifier import ImageClassifier

        return ImageClassifier
    raise AttributeError(f"module 'capstext' has no attribute {name!r}")
