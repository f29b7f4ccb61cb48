"""The small sample of a batch that proofs run on, and the comparison with the caller's own model."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from ..copies.memory import out_of_memory
from ..copies.non_finite import is_finite
from ..copies.pool import private_clone
from ..errors import HeadMismatchError, InputError, NormXLogitError
from ..inputs.batching import Batch
from ..parts.headpiece import answer_of
from ..parts.proofs import copy_answers_as_the_model
from ..tasks import Task
from .input_limits import MAX_OFFSET_ROWS
from .model_copy import ModelCopy

MAX_TEXTS = 2
MAX_TOKENS = 64
"""Most tokens of a text in the proof of a vocabulary head, whose logits are as wide as the vocabulary."""


def failed_inside(error: InputError) -> bool:
    """Return whether an error says that the model's own code failed on its input, see `reading`."""
    return error.__cause__ is not None


def sample_of(batch: Batch, task: Task) -> dict[str, Tensor]:
    """Return the inputs for the proof: one or two texts of one length, of more than one token."""
    if batch.placeholder_mask is not None:  # the head is the same for words alone, of which there may be few
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
    """Compare the answer of the copy that is explained with that of the model as its owner calls it.

    Returns:
        Why they could not be compared, as a note on results; None where they were.
    """
    with torch.inference_mode():
        actual = answer_of(private_clone(copy.module)(**inputs))
        expected = answer_of(private_clone(copy.wrapped)(**caller_inputs))
    if actual is None:
        return None  # `find_parts` raises what is wrong
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


@contextmanager
def reading(
    model: nn.Module, inputs: Mapping[str, Tensor], *, gradients: bool = False, doing: str = "read"
) -> Iterator[None]:
    """Name the input in the error of a model that fails on it.

    Args:
        model: Names it.
        inputs: What it reads.
        gradients: Whether gradients are computed: then the failure may be of another kind, and is not changed.
        doing: What the model does with it.
    """
    try:
        yield
    except NormXLogitError:
        raise
    except Exception as error:
        if out_of_memory(error) or gradients:
            raise
        texts, tokens = inputs["input_ids"].shape if "input_ids" in inputs else (1, 0)
        reason = (str(error).strip().splitlines() or [""])[0] + _length_hint(model, tokens)
        described_input = f"{f'{texts} texts' if texts > 1 else 'a text'} of {tokens} tokens" if tokens else "its input"
        raise InputError(
            f"{type(model).__name__} cannot {doing} {described_input}: {type(error).__name__}: {reason}"
        ) from error


def _length_hint(model: nn.Module, tokens: int) -> str:
    """Return the settings that bound the model's length, if a text reaches one, and what to do."""
    config = getattr(model, "config", None)
    settings = config.get_text_config().to_dict() if isinstance(config, PretrainedConfig) else {}
    settings_reached = [
        f"{name}={value}"
        for name, value in settings.items()
        if type(value) is int and 1 < value <= tokens + MAX_OFFSET_ROWS and re.search(r"position|seq_?len|n_ctx", name)
    ]
    if not settings_reached:
        return ""
    return (
        f"; its configuration says {', '.join(settings_reached)}: if the text is too long, set the tokenizer's "
        "model_max_length to what the model reads, and longer texts are cut or read in windows, see long_text="
    )
