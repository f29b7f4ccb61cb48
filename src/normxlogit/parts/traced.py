"""The recorded pass by which the parts of a model are found: over a text, and over another one beside it."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..copies.arithmetic import finite_or_excluded
from ..copies.memory import reraise_out_of_memory
from ..copies.module_io import Inputs
from ..copies.pool import private_clone
from ..copies.trace import Calls, trace
from ..errors import HeadMismatchError
from .headpiece import answer_of
from .main_input import MainInput


@dataclass(frozen=True)
class Traced:
    """A recorded pass over a text, and over another one beside it if the model reads that."""

    inputs: Inputs  # its inputs, (B, T)
    calls: Calls  # the calls of all modules
    output: ModelOutput  # what the model returned
    logits: Tensor  # its answer
    draws: bool  # whether random numbers were drawn


def trace_beside_another(model: PreTrainedModel, text: Inputs, main_input: MainInput) -> tuple[Traced, str | None]:
    """Record a pass over a text, (1, T), beside the same in another order, or alone: then with a note of why.

    Args:
        model: A copy of the model, which is run once or twice.
        text: The inputs of a text, (1, T).
        main_input: The input of which another text has another one.

    Raises:
        HeadMismatchError: If the model returns no logits.
    """
    note = "the model was not tried on a second text: "
    beside = _beside_another(text, main_input)
    if beside is None:
        note += "none of its inputs is known"
    else:
        try:
            traced = _traced(model, beside)
        except Exception as error:  # the same tokens in this order may be a text that the model does not read
            reraise_out_of_memory(error)
            note += "it does not read this one's tokens in another order"
        else:
            if finite_or_excluded(traced.logits):
                return traced, None
            note += "its logits for this one in another order are not finite"
    return _traced(model, text), note


def _traced(model: PreTrainedModel, inputs: Inputs) -> Traced:
    """Record a pass of a clone, on which transformers leaves hooks for hidden states."""
    random_states = _random_states()
    calls, output = trace(private_clone(model), inputs)
    if (logits := answer_of(output)) is None:
        raise HeadMismatchError(f"{type(model).__name__} returns no logits: it has no head to apply to a token")
    return Traced(inputs, calls, output, logits, _random_states() != random_states)


def _beside_another(text: Inputs, main_input: MainInput) -> Inputs | None:
    """Return the inputs of a text with one or two others, not as many texts as tokens; None if no input is known.

    The others are the text with its main input rolled by one along the axis of tokens, if that is known, else with the
    picture or the sound, whose names in transformers are known, rolled by one along the last axis.
    """
    names = (main_input.name, "pixel_values", "input_features", "input_values")
    main_name = next((name for name in names if name in text), None)
    if main_name is None:
        return None
    value = text[main_name]
    # The same numbers in another order are as a rule an input that the model reads, too.
    another = value.roll(1, 1 if main_name == main_input.name else -1)
    if main_name == main_input.name and torch.equal(another, value):  # one token, again and again
        another = main_input.another(value)
    second = {**text, main_name: another}
    # Two others to a text of two tokens, so that the axes of texts and tokens can be distinguished.
    other_count = 2 if value.shape[1] == 2 else 1
    tensor_names = [name for name, tensor in text.items() if isinstance(tensor, Tensor)]
    return {**text, **{name: torch.cat((text[name], *[second[name]] * other_count)) for name in tensor_names}}


def _random_states() -> tuple[Any, ...]:
    """Return the states of the generators that a model may draw from: torch's, Python's and numpy's.

    Arrays in them are turned into bytes, so that two results can be compared.
    """
    name, keys, *position = np.random.get_state()  # noqa: NPY002  # the state of those who draw without a generator
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), (name, np.asarray(keys).tobytes(), *position)
