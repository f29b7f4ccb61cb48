"""Removal of tokens from encodings, by token ids, never by decoding and tokenising again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from transformers.models.auto import modeling_auto as auto

from ..inputs.encoding import Encoding, readable_tokens
from ..model.task_model import TaskModel

Tokens = tuple[int, ...]

TextRemoval = tuple[int, Tokens]
"""A text, by its place, and the indices of the tokens that are removed from it."""


def masks(model: TaskModel) -> bool:
    """Return whether removed tokens are masked in place, not deleted: with a mask token, unless autoregressive."""
    if model.tokenizer.mask_token_id is None or model.task.position.left_to_right:
        return False
    family = model.config.model_type  # autoregressive are families of causal, but no masked language models
    is_masked = family in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES or family not in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return is_masked and not getattr(model.config, "is_decoder", False)


def tokens_removed(
    model: TaskModel, encodings: Sequence[Encoding] | Mapping[int, Encoding], *, masked: bool | None = None
) -> Callable[[TextRemoval], Encoding]:
    """Return a function from removals to what the model reads: the text with tokens masked in place, or deleted.

    A text from which everything is deleted becomes a single beginning-of-sequence (or end-of-sequence) token: a text
    of no tokens has no answer. Tokens are masked as `masks` says, if `masked` does not.
    """
    is_masked = masks(model) if masked is None else masked

    def without(removal: TextRemoval) -> Encoding:
        encoding, positions = encodings[removal[0]], set(removal[1])
        if not positions:
            return encoding
        if encoding.signal is not None:
            return replace(encoding, signal=encoding.signal.without(removal[1]))
        if is_masked:
            ids = [model.tokenizer.mask_token_id if i in positions else token for i, token in enumerate(encoding.ids)]
            return replace(encoding, inputs={**encoding.inputs, "input_ids": ids})
        moved = None if encoding.position is None else moved_position(encoding.position, removal[1])
        if remaining := [index for index in range(len(encoding)) if index not in positions]:
            return replace(encoding.take(remaining), position=moved)
        first = (model.tokenizer.bos_token_id, model.tokenizer.eos_token_id, model.filler)
        start_ids = [next(token for token in first if token is not None)]
        empty = encoding.take([0])
        return replace(
            empty,
            inputs={**empty.inputs, "input_ids": start_ids},
            tokens=readable_tokens(model.tokenizer, start_ids),
            offsets=empty.offsets and ((0, 0),),
            words=empty.words and ((0, 0),),
            sequence_ids=(None,),
            special=(True,),
            position=moved,
        )

    return without


def moved_position(position: int, removed: Sequence[int]) -> int:
    """Return a position after tokens are deleted: that of the same token, or of the last one left before it."""
    return max(0, position - sum(token <= position for token in removed))
