"""config.json of a run folder, as transformers reads it."""

from typing import Any

from transformers.configuration_utils import PreTrainedConfig
from transformers.models.auto.configuration_auto import AutoConfig


class CapstextConfig(PreTrainedConfig):
    """Label names and problem type in transformers' own keys; everything of ours under the key `capstext`."""

    model_type = "capstext"
    capstext: dict[str, Any] | None = None


AutoConfig.register("capstext", CapstextConfig)
