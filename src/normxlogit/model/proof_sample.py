"""The sample of a batch for the proof of the head, and the comparison of the copy with the caller's model."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ..copies.non_finite import is_finite
from ..copies.pool import private_clone
from ..errors import HeadMismatchError
from ..inputs.batching import Batch
from ..parts.headpiece import answer_of
from ..parts.proofs import copy_answers_as_the_model
from ..tasks import Task
from .model_copy import ModelCopy

MAX_TEXTS = 2
MAX_TOKENS = 64
"""Most tokens of a text in the proof of a vocabulary head, whose logits are as wide as the vocabulary."""


def sample_of(batch: Batch, task: Task) -> dict[str, Tensor]:
    """Return the inputs for the proof of the head: one or two texts of one length, of more than one token."""
    if batch.placeholder_mask is not None:  # the head is proved on the words alone, of which there may be few
        words = ~batch.placeholder_mask[0]  # (T,)
        by_token = {name: value for name, value in batch.inputs.items() if value.shape == batch.mask.shape}
        return {name: value[:, words][:, :MAX_TOKENS] for name, value in by_token.items()}
    lengths = [len(encoding) for encoding in batch.encodings[:MAX_TEXTS]]
    count = sum(length == lengths[0] for length in lengths)
    rows = [row for row, length in enumerate(lengths) if length == lengths[0]]
    width = min(lengths[0], MAX_TOKENS) if task.vocabulary else lengths[0]
    sample = {}
    for name, value in batch.inputs.items():
        if value.shape != batch.mask.shape:
            sample[name] = value[rows]
            continue
        real = value[rows][batch.mask[rows]].view(count, -1)[:, :width]  # (B, T)
        if width == 1 and task.reads_tokens:  # with one token the token axis would be ambiguous
            real = torch.cat((real, real + (name == "position_ids")), 1)  # (B, 2), the token once more
        sample[name] = real
    return sample


def first_alone(batch: Batch) -> dict[str, Tensor]:
    """Return the inputs of the batch's first text, without padding."""
    mask = batch.mask
    return {
        name: value[:1][mask[:1]][None] if value.shape == mask.shape else value[:1]
        for name, value in batch.inputs.items()
    }


def compare(copy: ModelCopy, inputs: Mapping[str, Tensor], caller_inputs: Mapping[str, Tensor]) -> str | None:
    """Compare the logits of the explained copy with those of the model as its owner calls it.

    Returns:
        Why they could not be compared, as a note on results; None if they were.
    """
    with torch.inference_mode():
        actual = answer_of(private_clone(copy.module)(**inputs))
        expected = answer_of(private_clone(copy.wrapped)(**_without_virtual_tokens(copy, caller_inputs)))
    if actual is None:
        return None  # `find_parts` raises the error
    if expected is None:
        return f"{type(copy.wrapped).__name__} returns no logits that the copy that is explained could be compared with"
    if not (is_finite(actual) or is_finite(expected)):
        return None  # the same
    difference = copy_answers_as_the_model(actual, expected)
    if difference is not None:
        raise HeadMismatchError(
            f"the copy of {type(copy.module).__name__} that is explained gives logits that differ from the model's "
            f"own by {difference:.2g}"
        )
    return None


def _without_virtual_tokens(copy: ModelCopy, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs of one text as the caller's model takes them, which puts virtual tokens before it itself."""
    ids = inputs.get("input_ids")
    if ids is None or not copy.virtual_tokens.ids:
        return dict(inputs)
    count = ids.shape[-1] - len(copy.virtual_tokens.stripped(ids[0].tolist()))
    return {name: value[:, count:] if value.shape == ids.shape else value for name, value in inputs.items()}
