"""Token classification: a label for each token."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..inputs.encoding import Batch, Encoding
from ..results.units.units import word_groups
from .answers import AnswerPosition, with_chosen_positions
from .base import ModelClasses, Task
from .classification import Classification, Labels

if TYPE_CHECKING:
    from ..model.task_model import ForwardPass

OUTSIDE = "O"
"""The label of tokens outside every entity, by the convention of all tagging schemes."""


class TokenClassification(Classification):
    """Classification of tokens; without a position, the first token with a label other than "O" is explained."""

    name = "token-classification"
    models = ModelClasses(
        mapping="MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
        auto_class="AutoModelForTokenClassification",
        peft_type="TOKEN_CLS",
        plain=True,
    )

    def __init__(self, model: Any = None, tokenizer: Any = None, labels: Sequence[str] | None = None) -> None:
        Task.__init__(self, model, tokenizer)
        self.outputs = Labels.of(model, labels, problem="single-label")  # each token has one of several labels
        self.position = AtTaggedToken(lambda: self.outputs.labels)


class AtTaggedToken(AnswerPosition):
    """The label of a token is explained."""

    at = "token"
    can_choose = True

    def __init__(self, labels: Callable[[], Sequence[str]]) -> None:
        self._labels = labels

    @property
    def _outside(self) -> int | None:
        """The index of the label of tokens outside every entity; None if no label is called so."""
        labels = self._labels()
        return labels.index(OUTSIDE) if OUTSIDE in labels else None

    def every(self, encoding: Encoding) -> list[int]:
        """Return the first token of every word, which carries its label by the convention of data sets for tagging."""
        places, offsets, words = [], encoding.offsets, encoding.words
        if offsets is None:
            return [token for token, special in enumerate(encoding.special) if not special]
        for sequence, text in enumerate((encoding.text or "", encoding.text_pair or "")):
            tokens = [(i, *offsets[i]) for i, of in enumerate(encoding.sequence_ids) if of == sequence]
            groups = word_groups(text, tokens, split=words)
            places += [next((i for i in word if offsets[i][1] > offsets[i][0]), word[0]) for *_, word in groups]
        return places

    def of_batch(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the chosen position, or that of the first entity, (B,)."""
        if logits is None:
            raise ValueError("the model's logits are needed to find the position")
        is_word = torch.zeros_like(batch.mask)  # (B, T)
        for row, encoding in enumerate(batch.encodings):
            is_word[row, batch.mask[row]] = ~torch.tensor(encoding.special, device=is_word.device)
        is_explained = is_word
        if self._outside is not None:
            is_explained = is_word & (logits.argmax(-1) != self._outside)  # (B, T)
        is_explained = torch.where(is_explained.any(-1, keepdim=True), is_explained, is_word)  # (B, T)
        return with_chosen_positions(batch, is_explained.int().argmax(-1))  # (B,)

    def answering_window(self, runs: Sequence["ForwardPass"]) -> int:
        """Return the first window with an entity."""
        return next((index for index, run in enumerate(runs) if int(run.logits.argmax()) != self._outside), 0)
