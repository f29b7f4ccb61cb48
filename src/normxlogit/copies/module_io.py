"""What a module is given, and what it returns: the tensor of interest in its arguments and in its output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.utils.generic import ModelOutput

Inputs = Mapping[str, Any]
"""The arguments of a forward pass, by name; (B, ...) each, if they are tensors."""

TensorInputs = Mapping[str, Tensor]
"""Arguments of a forward pass that are tensors, by name."""

States = tuple[Tensor, ...]
"""The embedding layer's output and each layer's, (B, T, H)."""


def as_batch(inputs: TensorInputs, device: torch.device) -> dict[str, Tensor]:
    """Return the inputs of one signal as a batch of it alone, (1, ...) each.

    Args:
        inputs: The inputs, by name, without the batch axis.
        device: Where the batch goes.
    """
    return {name: value[None].to(device) for name, value in inputs.items()}


class CallArguments(NamedTuple):
    """The arguments of a module's call."""

    args: tuple[Any, ...]
    kwargs: Inputs

    @property
    def main_input(self) -> Any:
        """The module's main input: its first argument, or by name that of layers in transformers."""
        if self.args:
            return self.args[0]
        return self.kwargs.get("hidden_states", next(iter(self.kwargs.values()), None))


@dataclass(frozen=True)
class Form:
    """How a module returns a state: alone, first in a tuple or list, or as `last_hidden_state`."""

    kind: Any  # the type of what it returns
    length: int = 1  # length of the tuple or list
    pooled: bool = False  # whether a pooled state is returned beside it

    @classmethod
    def of(cls, output: Any) -> "Form":
        """Return the form of a module's output."""
        pooled = isinstance(output, ModelOutput) and output.get("pooler_output") is not None
        return cls(type(output), len(output) if isinstance(output, tuple | list) else 1, pooled)

    def wrap(self, state: Tensor) -> Any:
        """Return a state in the form of the module's output."""
        if issubclass(self.kind, Tensor):
            return state
        if issubclass(self.kind, ModelOutput):
            return self.kind(last_hidden_state=state)
        # What else a layer returns, such as attention, is not known for another state.
        values = [state, *[None] * (self.length - 1)]
        is_named_tuple = hasattr(self.kind, "_fields")
        return self.kind(*values) if is_named_tuple else self.kind(values)

    def return_input(self, _: Any, *args: Any, **kwargs: Any) -> Any:
        """Skip a module: return its main input in the form of its output."""
        return self.wrap(CallArguments(args, kwargs).main_input)


def tensor_of(output: Any) -> Tensor | None:
    """Return the main tensor in a module's output, None if there is none."""
    if isinstance(output, ModelOutput):
        output = output.get("last_hidden_state")
    elif isinstance(output, tuple | list) and output:
        output = output[0]
    return output if isinstance(output, Tensor) else None


def with_tensor(output: Any, tensor: Tensor) -> Any:
    """Return a module's output with its main tensor replaced, see `tensor_of`.

    Args:
        output: A tensor, a tuple or list that begins with one, or a `ModelOutput`.
        tensor: The replacement.
    """
    if isinstance(output, ModelOutput):
        return type(output)(**{**output, "last_hidden_state": tensor})
    if not isinstance(output, tuple | list):
        return tensor
    values = [tensor, *output[1:]]
    is_named_tuple = hasattr(output, "_fields")
    return type(output)(*values) if is_named_tuple else type(output)(values)


def several_states(output: Any) -> bool:
    """Return whether a module returns more than one state, as reversible layers do."""
    main = tensor_of(output)
    if main is None or isinstance(output, Tensor):
        return False
    values = output.values() if isinstance(output, Mapping) else output
    return sum(isinstance(part, Tensor) and part.shape == main.shape for part in values) > 1


def hidden_of(output: Any) -> Tensor | None:
    """Return the (B, T, H) hidden states in a trunk's output, None if there are none."""
    hidden = tensor_of(output)
    return hidden if hidden is not None and hidden.ndim == 3 else None


def states_of(output: Any) -> States | None:
    """Return the `hidden_states` in a model's output, those of the decoder if it has one; None if there are none."""
    if not isinstance(output, Mapping):
        return None
    return output.get("hidden_states") or output.get("decoder_hidden_states") or None


def embedded_of(output: Mapping[str, Any]) -> Tensor | None:
    """Return the embedding layer's output, (B, T, H), of the encoder if there is one; None for another shape."""
    states = output.get("encoder_hidden_states") or states_of(output)
    return states[0] if states and states[0].ndim == 3 else None
