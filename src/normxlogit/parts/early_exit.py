"""Early exit: what the head reads if the model ended at a layer, because all later layers are skipped.

It serves trunks whose `hidden_states` cannot be brought to the head, as some pass several streams on or run two stacks
in turns: each later layer returns what it was given. It costs a pass for each layer.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten  # which know named tuples and transformers' outputs

from ..copies.answer_form import fields_of
from ..copies.forward_arguments import FieldKey
from ..copies.memory import attempted
from ..copies.module_io import CallArguments, Inputs, tensor_of
from ..copies.pool import ModelPool
from ..copies.run import Site
from ..copies.trace import Call, Calls, families
from .layer_outputs import chained_layers
from .layer_to_head import run_trunk
from .proofs import beyond_rounding, proof


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
        """Return a later layer's output with the states that it was given; it has run, to fill caches."""
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
    if hidden is None:  # for the type: a proved trunk has returned states
        return []
    with attempted(), torch.inference_mode():  # skipping layers may fail in any way: then none can be skipped
        layers = _layers_reaching_head(pool, trunk, calls, inputs)
        if not layers:
            return []
        with_all = exit_after(pool, trunk.path, layers, inputs, layer=len(layers))
        without_last = exit_after(pool, trunk.path, layers, inputs, layer=len(layers) - 1)
        if without_last.shape != hidden.shape or torch.equal(without_last, hidden):
            return []
        return layers if beyond_rounding(with_all, hidden) is None else []
    return []


def _layers_reaching_head(pool: ModelPool, trunk: Call, calls: Calls, inputs: Inputs) -> list[str]:
    """Return the path of the layer of each call before the head, of the kinds of layers that the head depends on."""
    layers = chained_layers([call for call in calls if call.end < trunk.end])
    if trunk.family in families(layers):  # the head reads the last layer as it is: the trunk is one of them
        layers = chained_layers([call for call in calls if call.end <= trunk.end])
    paths: list[str] = []
    for family in families(layers).values():
        if _reaches_head(pool, trunk, family[-1], inputs):
            paths += [call.path for call in family]
    return paths


def _reaches_head(pool: ModelPool, trunk: Call, layer: Call, inputs: Inputs) -> bool:
    """Return whether a small change of a layer's output changes the head's input.

    Where the output only decides which of several modules run, it does not.
    """

    def perturb(output: Any, _: Any) -> Any:
        """Add a thousandth of its neighbour to each coordinate of the state, in place: the output keeps its form."""
        state = tensor_of(output)
        if state is not None:
            state.add_(state.roll(1, -1), alpha=1e-3)  # a multiple of the state itself could be taken out by a norm
        return output

    changed = run_trunk(pool, trunk.path, inputs, replace={Site(layer.path, call=0): perturb})
    return trunk.hidden is not None and not torch.equal(changed, trunk.hidden)  # None: for the type, as above


def _with_inputs_as_states(output: Any, arguments: CallArguments) -> Any:
    """Return a skipped layer's output in which each state is replaced by an input, by its name or in their order."""
    if isinstance(output, Tensor):
        return arguments.main_input
    # The arguments that no field has got yet, by their names or places.
    unused_inputs: dict[Any, Any] = {**dict(enumerate(arguments.args)), **arguments.kwargs}

    def input_for(field_key: FieldKey, value: Any) -> Any:
        """Return the input that stands for a field of the output; the field's own value if it is not a state.

        Of the inputs with the form of the value, it is the one with the name or place of the field, or the first.

        Args:
            field_key: The name of the field, or its place in a tuple.
            value: What the layer returned there: a state if it is (B, T, H).
        """
        if not isinstance(value, Tensor) or value.ndim != 3:  # such as probabilities or a cache
            return value
        keys = [key for key, given in unused_inputs.items() if _has_form(given, value)]
        if not keys:  # the layer was given no such state: it made this one itself
            return value
        return unused_inputs.pop(field_key if field_key in keys else keys[0])

    # Only the outermost level is taken apart: what it holds counts as leaves.
    values, form = tree_flatten(output, is_leaf=lambda value: value is not output)
    return tree_unflatten(list(map(input_for, fields_of(output), values)), form)


def _has_form(value: Any, state: Tensor) -> bool:
    """Return whether a value is a tensor of the shape and the precision of a state."""
    return isinstance(value, Tensor) and value.shape == state.shape and value.dtype == state.dtype
