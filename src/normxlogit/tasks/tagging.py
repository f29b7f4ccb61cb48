"""Token classification: a label for each token."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig

from ..inputs.batching import Batch
from ..inputs.encoding import Encoding
from .classification import Classification, Problem
from .model import Explained
from .positions import locate, set_chosen

OUTSIDE = "O"
"""The label of tokens outside every entity, by the convention of all tagging schemes."""


class TokenClassification(Classification):
    """Classification of tokens; without a position, the first token with a label other than "O" is explained."""

    name = "token-classification"
    mapping = "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES"
    ending = "ForTokenClassification"
    auto_class = "AutoModelForTokenClassification"
    peft_type = "TOKEN_CLS"
    per_token = True

    @classmethod
    def _problem(cls, config: PretrainedConfig, outputs: int) -> Problem:
        return "single-label"

    def locate(self, encodings: list[Encoding], position: Any) -> list[Encoding]:
        """Return the encodings with a note of the token whose label is to be explained."""
        return locate(encodings, position)

    def positions(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the chosen position, or that of the first entity, (B,)."""
        if logits is None:
            raise ValueError("the model's logits are needed to find the position")
        text = torch.zeros_like(batch.mask)  # (B, T)
        for row, encoding in enumerate(batch.encodings):
            text[row, batch.mask[row]] = ~torch.tensor(encoding.special, device=text.device)
        entity = text
        if OUTSIDE in self.labels:
            entity = text & (logits.argmax(-1) != self.labels.index(OUTSIDE))  # (B, T)
        entity = torch.where(entity.any(-1, keepdim=True), entity, text)  # (B, T)
        return set_chosen(batch, entity.int().argmax(-1))  # (B,)

    def answering_window(self, runs: Sequence[Explained]) -> int:
        """Return the first window with an entity."""
        outside = self.labels.index(OUTSIDE) if OUTSIDE in self.labels else None
        return next((i for i, run in enumerate(runs) if int(run.logits.argmax()) != outside), 0)
