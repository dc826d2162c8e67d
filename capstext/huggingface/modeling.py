"""A run's model, as transformers calls it: token ids in, calibrated log-odds out."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForSequenceClassification

from capstext import runs
from capstext.huggingface.configuration import CapstextConfig


class CapstextForSequenceClassification(PreTrainedModel):
    """The parts of a TextModel under their own names, so that both read and write one model.safetensors."""

    config_class = CapstextConfig
    main_input_name = "input_ids"

    def __init__(self, config: CapstextConfig) -> None:
        super().__init__(config)
        blueprint = runs.Blueprint.parse(config.capstext, classes=config.num_labels)
        model = blueprint.empty_model()
        self.max_length = blueprint.config.tokens.max_length
        self.embedding = model.embedding
        self.network = model.network
        self.calibration = model.calibration
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """Logits are calibrated log-odds: their softmax (several labels: their sigmoid) is a probability."""
        ids = input_ids[:, : self.max_length].long()
        mask = torch.ones_like(ids) if attention_mask is None else attention_mask[:, : self.max_length]
        logits = self._log_odds(ids, mask.bool())
        loss = None if labels is None else self._loss(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _log_odds(self, ids: Tensor, mask: Tensor) -> Tensor:
        """As the run's own model answers; a text without tokens gets the class prior."""
        if ids.shape[1] == 0:
            return self.calibration.prior.expand(len(ids), -1)
        log_odds = self.calibration(self.network(self.embedding(ids, mask), mask))
        return torch.where(mask.any(-1, keepdim=True), log_odds, self.calibration.prior)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type == "multi_label_classification":
            return functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        return functional.cross_entropy(logits, labels)


AutoModelForSequenceClassification.register(CapstextConfig, CapstextForSequenceClassification)
