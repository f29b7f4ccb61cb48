"""Which module calls of a recorded pass could be the trunk, whose output the head reads."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..copies.module_io import States
from ..copies.trace import Call, Calls, path_of


def trunk_candidates(model: PreTrainedModel, calls: Calls, states: States | None) -> Iterator[Call]:
    """Yield the calls after the last layer whose output could be the head's input, likely ones first.

    Args:
        model: A model of transformers.
        calls: The calls of its modules in one pass.
        states: The embedding layer's output and each layer's, (B, T, H); None if the pass returned none.
    """
    # The proof would succeed with any earlier module too, even with the embeddings.
    last_layer_end = _end_of_last_layer(calls, states)
    # Of a module that is called several times the last call.
    called = {call.path: call for call in calls if call.hidden is not None and call.end >= last_layer_end}
    called.pop("", None)  # the model itself
    order = [
        path_of(model, model.base_model),  # by the convention of transformers the part without the head
        # Models of transformers, such as a decoder inside the model, return such an output.
        *(path for path, call in called.items() if isinstance(call.returned, ModelOutput)),
        *(path for path in called if path.count(".") <= 1),  # of the two outer levels, as "encoder" and "encoder.norm"
    ]
    for path in dict.fromkeys(order):
        if path in called:
            yield called[path]


def _end_of_last_layer(calls: Calls, states: States | None) -> int:
    """Return at which place among the ends of all calls the last layer ended; -1 if that is not known.

    Args:
        calls: The calls of all modules in one pass.
        states: The embedding layer's output and each layer's, (B, T, H); None if the pass returned none.
    """
    if not states or len(states) < 2:  # then every call comes after it
        return -1
    last_layer_input = states[-2]
    # The same tensor, not an equal one: the model lists what it passes on. A norm in the layer may read it too; of the
    # modules that do, the layer itself ends last.
    return max((call.end for call in calls if call.main_input is last_layer_input), default=-1)


def plain_trunk_candidates(
    model: nn.Module, calls: Calls, layers: Calls, logits: Tensor, shape: torch.Size
) -> Iterator[Call]:
    """Yield calls of a plain module that could be the trunk, the last first; after them those that give the answer.

    Args:
        model: A module that is not of transformers.
        calls: The calls of its modules in one pass.
        layers: Those of its layers.
        logits: What it answered, (B, C) or (B, T, C).
        shape: Of the token ids, (B, T).
    """
    base_model_path = path_of(model, getattr(model, "base_model", None))
    candidates: list[Call] = []
    answers: list[Call] = []  # calls whose output has the shape of the answer, and may be it
    last_layer_end = layers[-1].end if layers else -1  # without layers any call may be the trunk's
    for call in sorted(calls, key=lambda call: call.end, reverse=True):
        cannot_be_trunk = call.end < last_layer_end or not call.path  # the path of the model itself is ""
        hidden = None if cannot_be_trunk else _states_of_tokens(model, call, shape)
        if hidden is not None:
            (answers if hidden.shape == logits.shape else candidates).append(call)
    for group in (candidates, answers):
        yield from sorted(group, key=lambda call: call.path != base_model_path)  # this one first, then as they were


def _states_of_tokens(model: nn.Module, call: Call, shape: torch.Size) -> Tensor | None:
    """Return the hidden states that a call returned, (B, T, H); None if they are not of the text's tokens."""
    hidden = call.hidden
    if hidden is not None and is_time_first(model, hidden, shape):
        hidden = hidden.transpose(0, 1)  # (B, T, H)
    is_of_tokens = hidden is not None and hidden.shape[:2] == shape and hidden.is_floating_point()
    return hidden if is_of_tokens else None


def is_time_first(model: nn.Module, states: Tensor, shape: torch.Size) -> bool:
    """Return whether a plain module's states are (T, B, H), for token ids of (B, T).

    Args:
        model: The module.
        states: States of three axes.
        shape: The shape of the token ids, (B, T).
    """
    is_turned = states.shape[:2] == shape[::-1] != shape  # as many texts as tokens: batch first is assumed
    return is_turned and not isinstance(model, PreTrainedModel)
