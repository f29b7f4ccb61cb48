"""A forward pass that the caller has run: whether it is one of this model over these inputs."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..inputs.batching import Batch
from ..surgery.headpiece import answer_of
from ..surgery.non_finite import is_number
from ..surgery.parts import tolerance_for
from ..surgery.trace import embedded_of, states_of
from .model_copy import ModelCopy

__all__ = ["read_outputs"]


def read_outputs(copy: ModelCopy, batch: Batch, outputs: Mapping[str, Any]) -> tuple[tuple[Tensor, ...], Tensor]:
    """Take the hidden states and the logits out of what a model returned.

    The embedding layer is run again, which costs next to nothing, to see that the outputs are of these inputs.

    Args:
        copy: The model, taken apart.
        batch: What it is said to have read.
        outputs: What it returned.

    Returns:
        The embedding layer's output and every layer's, L + 1 of (B, T, H), and the logits.

    Raises:
        InputError: If the outputs lack something or are of other inputs.
    """
    states, logits = states_of(outputs), answer_of(outputs)
    if not states or logits is None:
        raise InputError("the outputs need logits and hidden states: call the model with output_hidden_states=True")
    if states[-1].shape[:2] != batch.mask.shape:
        raise InputError(f"the outputs are of shape {tuple(states[-1].shape)}, the input {tuple(batch.mask.shape)}")
    if not is_number(logits):
        raise InputError("the outputs hold NaN or infinite logits, so there is no answer to explain")
    parts = copy.parts
    if parts is None:
        raise ValueError("the model was not taken apart yet")
    if parts.layers is not None and parts.early_exit is None and len(states) != parts.layers + 1:
        raise InputError(f"the outputs hold {len(states)} hidden states, and the model gives {parts.layers + 1}")
    given = embedded_of(outputs)
    if parts.embedding_tap is None or given is None or parts.states_late:
        return states, logits
    with torch.inference_mode(), copy.recording(stop=True, at_embedding=True) as record:
        copy.call(**batch.inputs)
    own, record.trunk, record.embedded = record.embedded, None, None
    if own is not None:
        own = parts.embedding_tap.read(own, batch.mask.shape[1])  # (B, T, H)
        difference = batch.real((own - given.to(own.device)).abs())  # (N, H)
        if not difference.max().item() <= tolerance_for(own):
            raise InputError("the outputs are of other inputs: the embedding layer gives other vectors for these")
    return states, logits
