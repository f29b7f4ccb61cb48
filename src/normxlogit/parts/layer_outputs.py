"""The module and the call that returns the output of each layer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..compat import encoder_of
from ..copies.module_io import Inputs, States, several_states
from ..copies.trace import BATCH_FIRST, Axes, Call, Calls, axes_of, families, path_of, trace
from .proofs import largest_difference, rounding_of


@dataclass(frozen=True)
class LayerOutput:
    """The module call that returns a layer's output."""

    path: str  # the module that returns it
    call: int  # at which of its calls in a pass, counted from 1; layers may share one module
    # How the module holds what is (B, T, H), or (B, T, ...) where the layers pass several streams on; it may hold more
    # positions behind the text's, where the model pads it
    axes: Axes
    positions: int = 1  # how many axes after the first are positions: two in a map of the patches of a picture


LayerOutputs = tuple[LayerOutput, ...]
"""The outputs of the layers of a model, in their order."""


def layer_outputs(calls: Calls, trunk: str | None, states: States) -> LayerOutputs | None:
    """Find the modules that return the outputs of L layers.

    Args:
        calls: The calls of a pass.
        trunk: The module that has the layers; None for any.
        states: What the layers return, L + 1 of (B, T, H), the embedding layer's output first; the last one may be
            further on its way, and some trunks pass several streams on, with an axis more.

    Returns:
        None if no kind of module returns them, or they are not of the text's tokens, as in trunks that pool.
    """
    inside = [call for call in calls if call.path and (trunk is None or call.path.startswith(f"{trunk}."))]
    of_families = (_outputs_of_family(family, states) for family in families(inside).values())
    outputs = next(filter(None, of_families), None)
    text_state = states[0] if states[0].ndim == 3 else _hidden_of_trunk(calls, trunk)  # (B, T, H)
    if outputs is None or text_state is None:
        return None
    return _tokens_first(outputs, _inner_states(states), text_state.shape[:2])


def _hidden_of_trunk(calls: Calls, trunk: str | None) -> Tensor | None:
    """Return the hidden states, (B, T, H), that a trunk returned at its first call; None if it returned none."""
    return next((call.hidden for call in calls if call.path == trunk), None)


def _tokens_first(outputs: Sequence[LayerOutput], inner_states: States, shape: torch.Size) -> LayerOutputs | None:
    """Return outputs of layers with the axes of texts and tokens first, as in (B, T, H); None if these are unclear.

    Args:
        outputs: The outputs of L layers, in their order.
        inner_states: What the layers return, of the first L - 1, see `_inner_states`; the last one is as these.
        shape: How many texts and tokens there are, (B, T).
    """
    orders = [_order_with_tokens_first(state, shape) for state in inner_states]
    reordered = []
    for layer, output in enumerate(outputs):
        order = orders[min(layer, len(orders) - 1)]
        if order is None:
            return None
        reordered.append(replace(output, axes=tuple(output.axes[axis] for axis in order)))
    return tuple(reordered)


def _inner_states(states: States) -> States:
    """Return the states between layers, which are the outputs of all layers but the last; of one layer its output."""
    return states[1:-1] or states[-1:]


def chained_outputs(layers: Sequence[Call], shape: torch.Size) -> LayerOutputs:
    """Return the outputs of layers that were found by structure, see `chained_layers`, not by their states.

    Args:
        layers: The calls of the layers, in their order.
        shape: Of the token ids, (B, T); the layers may hold the axis of tokens first.

    Returns:
        An output for each layer; () if one of them has no state for each token.
    """
    tokens_first = torch.Size(shape[::-1])
    # With as many texts as tokens, the second entry replaces the first: batch first is assumed.
    axes_of_shape: dict[torch.Size, Axes] = {tokens_first: (1, 0, 2), shape: BATCH_FIRST}
    outputs = []
    for call in layers:
        axes = None if call.output is None else axes_of_shape.get(call.output.shape[:2])
        if axes is None:
            return ()
        outputs.append(LayerOutput(call.path, call.number, axes))
    return tuple(outputs)


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


def encoder_outputs(copy: Any, inputs: Inputs) -> LayerOutputs:
    """Find the modules of an encoder-decoder model that return its encoder's layers' outputs; () if unknown.

    Args:
        copy: A copy of the model, which is run once.
        inputs: The inputs of a forward pass.
    """
    calls, outputs = trace(copy, {**inputs, "use_cache": False})
    states = outputs.get("encoder_hidden_states") or ()
    if len(states) < 2 or not all(isinstance(state, Tensor) for state in states):
        return ()
    layers = layer_outputs(calls, path_of(copy, encoder_of(copy)), states) or ()
    return layers if all(layer.axes == BATCH_FIRST for layer in layers) else ()


def _outputs_of_family(family: Calls, states: States) -> list[LayerOutput] | None:
    """Return the calls of modules of one kind that return every layer's output in turn; None if they do not."""
    # Of a layer that returns several states, as reversible ones do, one alone is not its whole output.
    calls = [call for call in family if not several_states(call.returned)]
    matches = calls_returning(calls, _inner_states(states))
    if matches is None:
        return None
    layer_count = len(states) - 1
    if len(matches) < layer_count:  # not of a single layer, see `_inner_states`
        # The last layer's own output need not be among the states: a norm may follow, or a cut to the text.
        last_but_one, axes = matches[-1]
        last = _next_of_same_shape(calls, last_but_one)
        if last is None:
            return None
        matches.append((last, axes))
    return [LayerOutput(call.path, call.number, axes) for call, axes in matches]


def _next_of_same_shape(calls: Calls, before: Call) -> Call | None:
    """Return the next call after one that returned a tensor of its shape; None if there is none."""
    shape = getattr(before.output, "shape", None)
    for call in calls:
        if call.end > before.end and call.output is not None and call.output.shape == shape:
            return call
    return None


def calls_returning(calls: Calls, states: States) -> list[tuple[Call, Axes]] | None:
    """Return the calls that returned these states, in order, with their axes; None if no call returned one of them.

    Args:
        calls: The calls of modules, in their order.
        states: The states, (B, T, H) each.
    """
    matches: list[tuple[Call, Axes]] = []
    remaining = iter(calls)  # each state is looked for after the call that returned the one before
    for state in states:
        returned = ((call, axes_of(call.output, state)) for call in remaining)
        match = next(((call, axes) for call, axes in returned if axes is not None), None)
        if match is None:
            return None
        matches.append(match)
    return matches


def embedding_output(calls: Calls, embedded: Tensor | None) -> LayerOutput | None:
    """Find the module that returns the embedding layer's output, the innermost if several do; None if none does.

    Where the model itself multiplies what the module returns by a number, as Granite does, the module is taken: a
    factor changes no contribution, <g, s h> = <s g, h>.

    Args:
        calls: The calls of a pass.
        embedded: The embedding layer's output, (B, T, H); None if it is not known.
    """
    if embedded is None:
        return None
    # An inner module ends before the one that it is in; "" is the path of the model itself.
    in_order = [call for call in sorted(calls, key=lambda call: call.end) if call.path]
    for call in in_order:
        axes = axes_of(call.output, embedded)
        if axes is not None:
            return LayerOutput(call.path, call.number, axes)
    for call in in_order:
        if _is_multiple(call.output, embedded):
            return LayerOutput(call.path, call.number, BATCH_FIRST)
    return None


def _is_multiple(tensor: Tensor | None, reference: Tensor) -> bool:
    """Return whether a reference is a tensor times one number, within rounding."""
    if tensor is None or tensor.device != reference.device or tensor.dtype != reference.dtype:
        return False
    if tensor.shape != reference.shape or not tensor.is_floating_point():
        return False
    values, expected = tensor.float(), reference.float()
    largest = values.abs().argmax()  # where rounding changes the factor least
    factor = expected.flatten()[largest] / values.flatten()[largest]
    if not factor.isfinite() or factor == 0:  # one of the two is zero there
        return False
    return largest_difference(values * factor, expected) <= rounding_of(tensor.dtype) * expected.abs().max().item()


def _order_with_tokens_first(state: Tensor, shape: torch.Size) -> Axes | None:
    """Return an order of a state's axes, maybe with one of streams, with (B, T) first; None if unclear."""
    # Two axes side by side, before the last one, H; several matches do not tell which they are.
    matches = [axis for axis in range(state.ndim - 2) if state.shape[axis : axis + 2] == shape]
    if len(matches) != 1:
        return None
    texts, tokens = matches[0], matches[0] + 1
    return (texts, tokens, *(axis for axis in range(state.ndim) if axis not in (texts, tokens)))
