"""Texts with tokens taken out: on the token ids, never by decoding and tokenising again."""

from collections.abc import Sequence
from dataclasses import replace

from ..inputs.encoding import Encoding
from .task_model import TaskModel

__all__ = ["masks", "remove_tokens"]


def masks(model: TaskModel) -> bool:
    """Whether tokens are masked in place; they are deleted from autoregressive models and where there is no mask."""
    return model.tokenizer.mask_token_id is not None and model.task.name != "causal-lm" and not model.autoregressive


def remove_tokens(model: TaskModel, encoding: Encoding, positions: Sequence[int]) -> Encoding:
    """The text with tokens masked in place, or deleted where `masks` says so.

    A text from which everything is deleted becomes a single beginning-of-sequence (or end-of-sequence) token: a text
    of no tokens has no answer.

    Args:
        model: Knows the mask and what to do.
        encoding: The text.
        positions: Indices of the tokens to take out.

    Returns:
        Inputs for the model; of a deletion, only `inputs` and `tokens` follow it.
    """
    if masks(model):
        ids = list(encoding.ids)
        for position in positions:
            ids[position] = model.tokenizer.mask_token_id
        return replace(encoding, inputs={**encoding.inputs, "input_ids": ids})
    gone = set(positions)
    left = [i for i in range(len(encoding)) if i not in gone]
    kept = left or [0]
    inputs = {
        # Positions given by the caller are counted anew: the text closes up where a token is deleted.
        name: list(row[: len(kept)]) if name == "position_ids" else [row[i] for i in kept]
        for name, row in encoding.inputs.items()
    }
    if not left:
        inputs["input_ids"] = [_start(model)]
    return replace(encoding, inputs=inputs, tokens=tuple(encoding.tokens[i] for i in kept))


def _start(model: TaskModel) -> int:
    tokenizer = model.tokenizer
    known = (tokenizer.bos_token_id, tokenizer.eos_token_id)
    return next((i for i in known if i is not None), model.filler)
