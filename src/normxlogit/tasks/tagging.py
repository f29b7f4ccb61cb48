"""Token classification: a label for each token."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig

from ..inputs.batching import Batch
from ..inputs.encoding import Encoding
from ..results.units.words import word_groups
from .classification import Classification, Problem
from .interfaces import ForwardInterface
from .positions import locate, with_chosen_positions

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
        """Return "single-label": each token has one of several labels."""
        return "single-label"

    def locate(self, encodings: list[Encoding], position: Any) -> list[Encoding]:
        """Return the encodings with a note of the token whose label is to be explained."""
        return locate(encodings, position)

    def every_position(self, encoding: Encoding) -> list[int]:
        """Return the first token of every word, which carries its label by the convention of data sets for tagging."""
        places, offsets, words = [], encoding.offsets, encoding.words
        if offsets is None:
            return [token for token, special in enumerate(encoding.special) if not special]
        for sequence, text in enumerate((encoding.text or "", encoding.text_pair or "")):
            tokens = [(i, *offsets[i]) for i, of in enumerate(encoding.sequence_ids) if of == sequence]
            groups = word_groups(text, tokens, split=words)
            places += [next((i for i in word if offsets[i][1] > offsets[i][0]), word[0]) for *_, word in groups]
        return places

    def positions(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the chosen position, or that of the first entity, (B,)."""
        if logits is None:
            raise ValueError("the model's logits are needed to find the position")
        is_word = torch.zeros_like(batch.mask)  # (B, T)
        for row, encoding in enumerate(batch.encodings):
            is_word[row, batch.mask[row]] = ~torch.tensor(encoding.special, device=is_word.device)
        is_explained = is_word
        if OUTSIDE in self.labels:
            is_explained = is_word & (logits.argmax(-1) != self.labels.index(OUTSIDE))  # (B, T)
        is_explained = torch.where(is_explained.any(-1, keepdim=True), is_explained, is_word)  # (B, T)
        return with_chosen_positions(batch, is_explained.int().argmax(-1))  # (B,)

    def answering_window(self, runs: Sequence[ForwardInterface]) -> int:
        """Return the first window with an entity."""
        outside = self.labels.index(OUTSIDE) if OUTSIDE in self.labels else None
        return next((index for index, run in enumerate(runs) if int(run.logits.argmax()) != outside), 0)
