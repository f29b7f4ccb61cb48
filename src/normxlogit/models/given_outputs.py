"""A forward pass that the caller has run: whether it is whole, and of these inputs."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..errors import InputError
from ..inputs.batching import Batch
from ..surgery.headpiece import answer_of
from ..surgery.parts import Parts, tolerance_for
from ..surgery.trace import states_of

__all__ = ["check_layer_count", "check_same", "check_shapes"]


def check_shapes(outputs: Any, batch: Batch, *, per_token: bool) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the hidden states and logits that outputs hold.

    Args:
        outputs: What the model returned.
        batch: What it was given.
        per_token: Whether it answers at every token.

    Raises:
        InputError: If there are none, or they are of other texts.
    """
    states = states_of(outputs)
    logits = answer_of(outputs) if isinstance(outputs, Mapping) else None
    if not states or logits is None:
        raise InputError("the outputs need logits and hidden states: call the model with output_hidden_states=True")
    texts = batch.mask.shape[:1]
    for value, wanted in ((states[-1], batch.mask.shape), (logits, batch.mask.shape if per_token else texts)):
        if value.shape[: len(wanted)] != wanted:
            raise InputError(f"the outputs are of shape {tuple(value.shape)}, the input {tuple(batch.mask.shape)}")
    return states, logits


def check_layer_count(states: tuple[Tensor, ...], parts: Parts) -> None:
    """Refuse a list of hidden states that was cut.

    Raises:
        InputError: If it is not the embedding layer's output and every layer's.
    """
    counted = parts.early_exit is None and parts.token_pooling is None and parts.layers is not None
    if counted and len(states) - 1 != parts.layers:
        raise InputError(
            f"the outputs hold {len(states)} hidden states, and the model gives {(parts.layers or 0) + 1}: the "
            "embedding layer's output and every layer's"
        )


def check_same(batch: Batch, theirs: Tensor, ours: Tensor) -> None:
    """Refuse hidden states of other inputs.

    Args:
        batch: The inputs.
        theirs: A hidden state that the caller's outputs hold, (B, T, H).
        ours: The same one, computed from the inputs, (B, T, H).

    Raises:
        InputError: If they differ at a token.
    """
    found, wanted = batch.real(theirs), batch.real(ours)  # (N, H) each
    same = found.shape == wanted.shape
    if not same or not (found.to(wanted.device).float() - wanted.float()).abs().max() <= tolerance_for(wanted):
        raise InputError(
            "the hidden states of these outputs do not come from these inputs; are they of the same inputs, in the "
            "same order, and was the model in evaluation mode?"
        )
