"""Bring a layer's output to the head through the modules that follow the layers, or by early exit.

The entries of `hidden_states` before the last one have not passed through a norm, a projection or a mean of streams
that may follow. So the trunk is run with its layers skipped, and the last one returns that entry.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten  # which know named tuples and transformers' outputs

from ..copies.answer_form import fields_of
from ..copies.forward_arguments import FieldKey
from ..copies.memory import attempted
from ..copies.module_io import CallArguments, Form, Inputs, States, hidden_of, tensor_of
from ..copies.pool import ModelPool
from ..copies.run import Instead, Replacements, Site, run
from ..copies.trace import Axes, Call, Calls, Paths, axes_of, families
from .layer_outputs import calls_returning
from .proofs import beyond_rounding, proof, tolerance_for


@dataclass(frozen=True)
class Tail:
    """The modules that follow the layers of a trunk."""

    layers: Paths
    form: Form  # how the last one returns a state
    axes: Axes  # how the layers hold what `hidden_states` shows as (B, T, H)


def run_trunk(
    pool: ModelPool,
    trunk: str,
    inputs: Inputs,
    *,
    instead: Mapping[str, Instead] | None = None,
    replace: Replacements | None = None,
) -> Tensor:
    """Run a model up to the end of its trunk, (B, T, H), with its layers or what they return replaced.

    Args:
        pool: Copies of the model.
        trunk: The path of the trunk.
        inputs: The inputs of the pass, (B, T).
        instead: Functions that are called instead of a layer, by its path.
        replace: Functions that change what a layer returns; the last layer may be the trunk itself.

    Raises:
        LookupError: If the trunk returns no hidden states.
    """
    stop = Site(trunk)
    with pool.lease() as copy:
        hidden = hidden_of(run(copy, inputs, instead=instead, replace=replace, stop=stop).recorded.get(stop))
    if hidden is None:
        raise LookupError(f"{trunk} returned no hidden states")
    return hidden


def bring_to_head(pool: ModelPool, trunk: str, tail: Tail, state: Tensor, inputs: Inputs) -> Tensor:
    """Return what the head reads, (B, T, H), where each layer of a trunk returns a given state, (B, T, H).

    Args:
        pool: Copies of the model.
        trunk: The path of the trunk.
        tail: What follows its layers.
        state: A layer's output, (B, T, H).
        inputs: The inputs of the pass, (B, T).

    Raises:
        LookupError: If the trunk returns no hidden states.
    """
    layer_output = state.permute([tail.axes.index(axis) for axis in range(len(tail.axes))])
    returned = dict.fromkeys(tail.layers, lambda *_, **__: tail.form.wrap(layer_output))
    return run_trunk(pool, trunk, inputs, instead=returned)


@proof(
    compares="the last layer's output after what follows the layers, and what the head read",
    tolerance="rounding",
    why="a layer's state is brought to the head by the way that the last one's takes",
    when="first call; a pass in which the layers are skipped",
)
def find_tail(pool: ModelPool, inputs: Inputs, calls: Calls, trunk: Call, states: States) -> Tail | None:
    """Find what follows a trunk's layers, which give L + 1 states of (B, T, H), and prove it; None for nothing.

    The last layer reads the last state but one, and modules of its kind return the states before.

    Args:
        pool: Copies of the model.
        inputs: The inputs of a recorded pass, (B, T).
        calls: Its calls.
        trunk: The call whose output the head reads.
        states: The embedding layer's output and each layer's, (B, T, H).

    Raises:
        LookupError: If no modules are found that bring the last layer's output to the head.
    """
    hidden = trunk.hidden
    if hidden is None:
        raise LookupError("the trunk returned no hidden states")
    inside = [call for call in calls if f"{call.path}.".startswith(f"{trunk.path}.")]
    by_family = families(inside)
    if axes_of(states[-1], hidden) and any(calls_returning(family, states[1:]) for family in by_family.values()):
        return None  # one kind of module gives every state, the last one too, which the head reads as it is
    for last in inside:
        tail = _tail_after(last, by_family[last.family], trunk, states)
        if tail is not None and _brings_to_head(pool, trunk, tail, last.output, inputs, tolerance_for(states[-1])):
            return tail
    raise LookupError("the modules between the last layer and the head could not be found")


def _brings_to_head(pool: ModelPool, trunk: Call, tail: Tail, output: Any, inputs: Inputs, tolerance: float) -> bool:
    """Return whether the last layer's output, brought to the head by a tail, is what the head read."""
    hidden: Any = trunk.hidden
    with attempted(), torch.inference_mode():  # a wrong guess may fail in any way; the next one is tried
        brought = bring_to_head(pool, trunk.path, tail, output.permute(tail.axes), inputs)
        difference = (brought - hidden).abs().max().item()
        return bool(difference <= tolerance)
    return False  # it failed


def _tail_after(last: Call, family: Calls, trunk: Call, states: States) -> Tail | None:
    """Return the tail of a trunk if a call could be its last layer's, and its family the layers; else None.

    Args:
        last: A call inside the trunk. A last layer reads the last state but one.
        family: The calls of modules of its kind. Layers return the states between the first and the last.
        trunk: The call of the trunk.
        states: The embedding layer's output and each layer's, (B, T, H).
    """
    if last.main_input is None or last.output is None or last.path == trunk.path:
        return None
    axes = axes_of(last.main_input, states[-2])
    if axes is None or last.output.shape != last.main_input.shape:
        return None
    inner_states = states[1:-1]
    if inner_states and calls_returning(family, inner_states) is None:
        return None
    paths = dict.fromkeys(call.path for call in family if call.path.startswith(f"{trunk.path}."))
    return Tail(tuple(paths), Form.of(last.returned), axes)


def first_layer_input(calls: Calls, states: States) -> Tensor | None:
    """Return the first layer's input where `hidden_states` begins with that layer's output, else None.

    Args:
        calls: The calls of a pass.
        states: The states that it returned, (B, T, H).
    """
    by_family = families(calls)
    for call in calls:
        if axes_of(call.output, states[0]) is None or axes_of(call.main_input, states[0]) is not None:
            continue
        family = by_family[call.family]
        # The modules of this class are the layers if there is one for each state but the last, and it is their first.
        may_be_layers = len(family) > 1 and len(family) == len(states) - 1 and family[0] is call
        if not may_be_layers or calls_returning(family, states[:-1]) is None:
            continue
        if call.main_input is not None and call.main_input.shape == states[0].shape:
            return call.main_input
    return None


# --- early exit ------------------------------------------------------------------------------------------------------
#
# Where `hidden_states` cannot be brought to the head, as some trunks pass several streams on or run two stacks in
# turns, all later layers are skipped: each returns what it was given. It costs a pass for each layer.


def exit_after(pool: ModelPool, trunk: str, layers: Iterable[str], inputs: Inputs, layer: int) -> Tensor:
    """Run a trunk with the layers after `layer`, counted from 1, skipped; return what the head reads, (B, T, H).

    Args:
        pool: Copies of the model.
        trunk: The path of the trunk.
        layers: The paths of all layers.
        inputs: The inputs of the pass, (B, T).
        layer: How many calls of layers run, counted from 1.

    Raises:
        LookupError: If the trunk returns no hidden states.
    """
    calls_made = 0

    def skip(output: Any, arguments: CallArguments) -> Any:
        """Return what a layer is given for what it returned, if it is a later one; it has run, to fill caches."""
        nonlocal calls_made
        calls_made += 1
        return output if calls_made <= layer else _with_inputs_as_states(output, arguments)

    at_every_call = {Site(path, call=0): skip for path in layers}
    return run_trunk(pool, trunk, inputs, replace=at_every_call)


@proof(
    compares="the trunk with no layer skipped, and with the last one skipped, and what the head read",
    tolerance="rounding; with the last one skipped it must differ",
    why="the layers that are skipped are all of them, and skipping has an effect",
    when="first call of models whose layers cannot be brought to the head; a pass for each kind of layer and two more",
)
def find_early_exit(pool: ModelPool, trunk: Call, calls: Calls, inputs: Inputs) -> list[str]:
    """Find the layers that can be skipped, and prove them: the path of the layer of each call; none if none can.

    Args:
        pool: Copies of the model.
        trunk: The call whose output the head reads.
        calls: All calls of the pass.
        inputs: Its inputs, (B, T).
    """
    hidden = trunk.hidden
    if hidden is None:
        return []
    with attempted(), torch.inference_mode():  # without a way a model's layers are refused
        layers = _layers_reaching_head(pool, trunk, calls, inputs)
        if not layers:
            return []
        every_layer = exit_after(pool, trunk.path, layers, inputs, len(layers))
        without_last = exit_after(pool, trunk.path, layers, inputs, len(layers) - 1)
        if without_last.shape != hidden.shape or torch.equal(without_last, hidden):
            return []
        return layers if beyond_rounding(every_layer, hidden) is None else []
    return []


def _layers_reaching_head(pool: ModelPool, trunk: Call, calls: Calls, inputs: Inputs) -> list[str]:
    """Return the layer of each call whose output the head's input depends on."""
    layers = chained_layers([call for call in calls if call.end < trunk.end])
    if trunk.family in families(layers):  # the head reads the last layer as it is: the trunk is this layer
        layers = chained_layers([call for call in calls if call.end <= trunk.end])
    paths: list[str] = []
    for family in families(layers).values():
        if _reaches_head(pool, trunk, family[-1], inputs):
            paths += [call.path for call in family]
    return paths


def chained_layers(calls: Calls) -> Calls:
    """Return the calls of layers, found by structure: modules of a list that read the state another one returned.

    Args:
        calls: The calls of a pass, in the order in which they begin.
    """
    candidates: Calls = []
    for call in calls:
        is_in_list = call.path.rpartition(".")[2].isdecimal()  # as "h.3"
        paths_of_candidates = tuple(f"{candidate.path}." for candidate in candidates)
        is_inside_candidate = call.path.startswith(paths_of_candidates)
        if is_in_list and call.keeps_shape and not is_inside_candidate:
            candidates.append(call)
    # A module whose output is added to a state, such as cross-attention in a list of its own, is not a layer.
    layer_families = {call.family for call in candidates if _is_read_by_another(call, calls)}
    return [call for call in candidates if call.family in layer_families]


def _is_read_by_another(layer: Call, calls: Calls) -> bool:
    """Return whether another module than the layer reads its output."""
    output = layer.output
    return any(call.main_input is output for call in calls if call.path != layer.path)


def _reaches_head(pool: ModelPool, trunk: Call, layer: Call, inputs: Inputs) -> bool:
    """Return whether changing a layer's output changes the head's input; that of some layers only affects a choice."""

    def perturb(output: Any, _: Any) -> Any:
        state = tensor_of(output)
        if state is not None:
            state.add_(state.roll(1, -1), alpha=1e-3)
        return output

    changed = run_trunk(pool, trunk.path, inputs, replace={Site(layer.path, call=0): perturb})
    return trunk.hidden is not None and not torch.equal(changed, trunk.hidden)


def _with_inputs_as_states(output: Any, arguments: CallArguments) -> Any:
    """Return the output of a skipped layer with the states that it was given, each by its name or in their order."""
    if isinstance(output, Tensor):
        return arguments.main_input
    # The arguments that no field has got yet, by their names or places.
    inputs: dict[Any, Any] = {**dict(enumerate(arguments.args)), **arguments.kwargs}

    def input_for(field_key: FieldKey, value: Any) -> Any:
        """Return the input that stands for a field of the output; the field's own value if it is not a state.

        Of the inputs with the form of the value, it is the one with the name or place of the field, or the first.

        Args:
            field_key: The name of the field, or its place in a tuple.
            value: What the layer returned there: a state if it is (B, T, H).
        """
        if not isinstance(value, Tensor) or value.ndim != 3:
            return value
        keys = [key for key, given in inputs.items() if isinstance(given, Tensor) and _has_form(given, value)]
        if not keys:
            return value
        return inputs.pop(field_key if field_key in keys else keys[0])

    values, form = tree_flatten(output, is_leaf=lambda value: value is not output)
    return tree_unflatten(list(map(input_for, fields_of(output), values)), form)


def _has_form(tensor: Tensor, state: Tensor) -> bool:
    """Return whether a tensor has the shape and the precision of a state."""
    return tensor.shape == state.shape and tensor.dtype == state.dtype
