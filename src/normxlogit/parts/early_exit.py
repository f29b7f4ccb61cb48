"""Early exit: read a layer by skipping all later ones, where `hidden_states` cannot be brought to the head.

Some trunks pass several streams on, run two stacks in turns, or work on ever fewer states. All have layers that hand a
state to the next: a skipped one returns what it was given. It costs a pass for each layer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..copies.memory import reraise_out_of_memory
from ..copies.pool import Pool
from ..copies.run import main_input, tensor_of
from ..copies.trace import Call
from .layer_to_head import run_trunk
from .proofs import beyond_rounding, proof


def exit_after(
    pool: Pool[PreTrainedModel], trunk: str, layers: Iterable[str], inputs: Mapping[str, Any], layer: int
) -> Tensor:
    """Run a trunk with the layers after `layer`, counted from 1, skipped; return what the head reads, (B, T, H)."""
    calls_made = 0

    def run_or_skip(layer_forward: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls_made
        output = layer_forward(*args, **kwargs)  # also when it is skipped: caches and recurrent states must be there
        calls_made += 1
        return output if calls_made <= layer else _with_inputs_as_states(output, args, kwargs)

    return run_trunk(pool, trunk, dict.fromkeys(layers, run_or_skip), inputs)


@proof(
    compares="the trunk with no layer skipped, and with the last one skipped, and what the head read",
    tolerance="rounding; with the last one skipped it must differ",
    why="the layers that are skipped are all of them, and skipping has an effect",
    when="first call of models whose layers cannot be brought to the head; a pass for each kind of layer and two more",
)
def find_early_exit(
    pool: Pool[PreTrainedModel], trunk: Call, calls: list[Call], inputs: Mapping[str, Any]
) -> tuple[tuple[str, ...] | None, int | None]:
    """Find the layers that can be skipped, and how many calls of them a pass has, and prove them; None if none can."""
    hidden = trunk.hidden
    if hidden is None:
        return None, None
    try:
        with torch.inference_mode():
            layer_calls = chained_layers([call for call in calls if call.end < trunk.end])
            last_calls = {call.family: call for call in layer_calls}.values()
            families_reaching_head = {call.family for call in last_calls if _reaches_head(pool, trunk, call, inputs)}
            layer_calls = [call for call in layer_calls if call.family in families_reaching_head]
            if not layer_calls:
                return None, None
            layers, count = tuple(dict.fromkeys(call.path for call in layer_calls)), len(layer_calls)
            every_layer, without_last = (
                exit_after(pool, trunk.path, layers, inputs, layer) for layer in (count, count - 1)
            )
    except Exception as error:  # a layer may be of any form; without a way its model's layers are refused
        reraise_out_of_memory(error)
        return None, None
    if without_last.shape != hidden.shape or torch.equal(without_last, hidden):
        return None, None
    return (layers, count) if beyond_rounding(every_layer, hidden) is None else (None, None)


def chained_layers(calls: list[Call]) -> list[Call]:
    """Return the calls of layers: outermost numbered modules whose output has their input's shape and is read next."""
    layers: list[Call] = []
    for call in calls:
        numbered = call.path.rpartition(".")[2].isdecimal()
        nested = any(call.path.startswith(f"{outer.path}.") for outer in layers)
        if numbered and not nested and call.keeps_shape:
            layers.append(call)
    # A module whose output is added to a state, such as cross-attention in a list of its own, is not a layer.
    families = set()
    for layer in layers:
        output = tensor_of(layer.returned)
        if any(call.main_input is output for call in calls if call.path != layer.path):
            families.add(layer.family)
    return [call for call in layers if call.family in families]


def _reaches_head(pool: Pool[PreTrainedModel], trunk: Call, layer: Call, inputs: Mapping[str, Any]) -> bool:
    """Return whether changing a layer's output changes the head's input; that of some layers only affects a choice."""

    def perturbed(layer_forward: Any, *args: Any, **kwargs: Any) -> Any:
        output = layer_forward(*args, **kwargs)
        state = tensor_of(output)
        if state is not None:
            state.add_(state.roll(1, -1), alpha=1e-3)
        return output

    changed = run_trunk(pool, trunk.path, {layer.path: perturbed}, inputs)
    return trunk.hidden is not None and not torch.equal(changed, trunk.hidden)


def _with_inputs_as_states(output: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the output of a skipped layer: its states are replaced by the input states of the same shape.

    With several states, one under the name of an argument is replaced by that, the others by what remains in order.
    """
    if isinstance(output, Tensor):
        return main_input(args, kwargs)
    fields: dict[Any, Any]
    if isinstance(output, ModelOutput):
        fields = dict(output)
    else:
        fields = dict(zip(getattr(output, "_fields", range(len(output))), output, strict=True))
    tensors = {name: value for name, value in (*enumerate(args), *kwargs.items()) if isinstance(value, Tensor)}
    states = {name: value for name, value in fields.items() if isinstance(value, Tensor) and value.ndim == 3}
    for name, state in sorted(states.items(), key=lambda item: item[0] not in kwargs):
        alike = [key for key, value in tensors.items() if (value.shape, value.dtype) == (state.shape, state.dtype)]
        if alike:
            fields[name] = tensors.pop(name if name in kwargs and name in alike else alike[0])
    if isinstance(output, ModelOutput):
        return type(output)(**fields)
    return output._replace(**fields) if hasattr(output, "_replace") else type(output)(fields.values())
