"""Removal of tokens from encodings, by token ids, never by decoding and tokenising again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from transformers.models.auto import modeling_auto as auto

from ..inputs.decoded_tokens import readable_tokens
from ..inputs.encoding import Encoding
from ..model.task_model import TaskModel

Tokens = tuple[int, ...]


class TextRemoval(NamedTuple):
    """The tokens that are removed from one of several texts."""

    text: int  # the place of the text among them
    tokens: Tokens  # their indices in the text


def masks(model: TaskModel) -> bool:
    """Return whether removed tokens are masked in place, not deleted: with a mask token, unless autoregressive."""
    if model.tokenizer.mask_token_id is None or model.task.position.left_to_right:
        return False
    family = model.config.model_type
    has_masked_form = family in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    has_causal_form = family in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    is_autoregressive = has_causal_form and not has_masked_form  # BERT has both forms, and reads masks
    return not is_autoregressive and not getattr(model.config, "is_decoder", False)


def tokens_removed(
    model: TaskModel, encodings: Sequence[Encoding] | Mapping[int, Encoding], *, masked: bool | None = None
) -> Callable[[TextRemoval], Encoding]:
    """Return a function from removals to what the model reads: the text with tokens masked in place, or deleted.

    A text from which everything is deleted becomes a single beginning-of-sequence (or end-of-sequence) token: a text
    of no tokens has no answer.

    Args:
        model: The model.
        encodings: The texts, by their places.
        masked: Whether tokens are masked; None for what `masks` says.
    """
    is_masked = masks(model) if masked is None else masked

    def without(removal: TextRemoval) -> Encoding:
        """Return what the model reads after a removal."""
        encoding = encodings[removal.text]
        tokens = removal.tokens
        if not tokens:
            return encoding
        if encoding.signal is not None:
            return replace(encoding, signal=encoding.signal.without(tokens))
        return _masked(model, encoding, tokens) if is_masked else _shortened(model, encoding, tokens)

    return without


def _masked(model: TaskModel, encoding: Encoding, removed: Tokens) -> Encoding:
    """Return a text with the mask token in the place of some tokens."""
    ids = list(encoding.ids)
    for token in removed:
        ids[token] = model.tokenizer.mask_token_id
    return replace(encoding, inputs={**encoding.inputs, "input_ids": ids})


def _shortened(model: TaskModel, encoding: Encoding, removed: Tokens) -> Encoding:
    """Return a text without some of its tokens, or a single token if all are deleted."""
    # `take` alone would drop the position of a removed token.
    position = None if encoding.position is None else moved_position(encoding.position, removed)
    remaining = sorted({*range(len(encoding))} - {*removed})
    shortened = encoding.take(remaining) if remaining else _of_first_token(model, encoding)
    return replace(shortened, position=position)


def _of_first_token(model: TaskModel, encoding: Encoding) -> Encoding:
    """Return a text of nothing but a beginning-of-sequence (or end-of-sequence) token."""
    candidates = (model.tokenizer.bos_token_id, model.tokenizer.eos_token_id, model.filler)
    ids = [next(token for token in candidates if token is not None)]
    empty = encoding.take([0])
    return replace(
        empty,
        inputs={**empty.inputs, "input_ids": ids},
        tokens=readable_tokens(model.tokenizer, ids),
        offsets=empty.offsets and ((0, 0),),
        words=empty.words and ((0, 0),),
        sequence_ids=(None,),
        special=(True,),
    )


def moved_position(position: int, removed: Sequence[int]) -> int:
    """Return a position after tokens are deleted: that of the same token, or of the last one left before it."""
    return max(0, position - sum(token <= position for token in removed))
