"""Token classification: a label for each token."""

import re
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..extending import ModelClasses
from ..inputs.batches import Batch
from ..inputs.encoding import Encoding, Spans
from ..results.units.units import word_groups
from ..text.same import same_text
from .classification import Classification, Labels
from .task_outputs import AnswerPosition, AtToken, Outputs, with_chosen_positions

if TYPE_CHECKING:
    from ..model.forward_pass import ForwardPass

OUTSIDE = "O"
"""The label of tokens outside every entity, by the convention of all tagging schemes."""

OF_ENTITY = re.compile(r"[BIELMSU][-_].")
"""How labels of entities begin in these schemes: with the token's place in its entity, as "B-PER" and "I-PER"."""


class TokenClassification(Classification):
    """Classification of tokens; without a position, the first token that belongs to an entity is explained."""

    name = "token-classification"
    models = ModelClasses(
        mapping="MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
        auto_class="AutoModelForTokenClassification",
        peft_type="TOKEN_CLS",
        plain=True,
    )

    @cached_property
    def outputs(self) -> Outputs:  # type: ignore[override]
        """The labels, of which each token has one."""
        return Labels.of(self._model, self._labels, problem="single-label")

    @cached_property
    def position(self) -> AnswerPosition:  # type: ignore[override]
        """The token that is explained, by the labels as they are when a text is read."""
        return AtTaggedToken(lambda: outside_labels(self.outputs.labels))  # a plain module's labels are known later


def outside_labels(labels: Sequence[str]) -> list[int]:
    """Return the indices of labels of tokens outside every entity: "O", or the only one that is of no entity.

    Args:
        labels: The names of all labels.
    """
    named_outside = [index for index, label in enumerate(labels) if same_text(label, OUTSIDE)]
    if named_outside:
        return named_outside
    of_no_entity = [index for index, label in enumerate(labels) if not OF_ENTITY.match(label)]
    return of_no_entity if len(of_no_entity) == 1 else []


def _first_with_characters(tokens: Sequence[int], offsets: Spans) -> int:
    """Return the first of some tokens that has characters; the first of all if none has."""
    return next((token for token in tokens if offsets[token][1] > offsets[token][0]), tokens[0])


class AtTaggedToken(AtToken):
    """The label of a token is explained."""

    can_choose = True

    def __init__(self, outside: Callable[[], Collection[int]]) -> None:
        self._outside = outside  # returns the indices of labels outside every entity, which a caller may rename

    def ignoring(self, labels: Collection[int]) -> "AtTaggedToken":
        """Return the position for a pipeline that leaves out tokens of some labels, given by their indices."""
        return AtTaggedToken(lambda: labels)

    def every(self, encoding: Encoding) -> list[int]:
        """Return the tokens that `position=ALL` explains, the first of each word.

        By the convention of data sets for tagging it carries the word's label. Where words are not known, it is every
        token but special ones.
        """
        if encoding.offsets is None:
            return [token for token, special in enumerate(encoding.special) if not special]
        first_tokens: list[int] = []
        for sequence, text in enumerate((encoding.text, encoding.text_pair)):
            tokens = [
                (token, start, end)
                for token, (start, end) in enumerate(encoding.offsets)
                if encoding.sequence_ids[token] == sequence
            ]
            words = word_groups(text or "", tokens, split=encoding.words)  # of no second text there are no tokens
            first_tokens += [_first_with_characters(word.tokens, encoding.offsets) for word in words]
        return first_tokens

    def of_batch(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the chosen position, or that of the first entity, (B,)."""
        if logits is None:  # for the type checker alone: only a vocabulary's head has not run yet
            raise ValueError("the model's logits are needed to find the position")
        is_word = torch.zeros_like(batch.mask)  # (B, T)
        for row, encoding in enumerate(batch.encodings):
            is_word[row, batch.mask[row]] = ~torch.tensor(encoding.special, device=is_word.device)
        outside = torch.tensor(list(self._outside()), dtype=torch.long, device=logits.device)
        is_entity = is_word & ~torch.isin(logits.argmax(-1), outside)  # (B, T)
        # Without an entity it is the first word.
        is_candidate = torch.where(is_entity.any(-1, keepdim=True), is_entity, is_word)  # (B, T)
        return with_chosen_positions(batch, is_candidate.int().argmax(-1))  # (B,)

    def answering_window(self, runs: Sequence["ForwardPass"]) -> int:
        """Return the first window with an entity."""
        outside = self._outside()
        return next((index for index, run in enumerate(runs) if int(run.logits.argmax()) not in outside), 0)
