"""Bring a layer's output to the head through the modules that follow the layers.

The entries of `hidden_states` before the last one have not passed through a norm, a projection or a mean of streams
that may follow. So the trunk is run with its layers skipped, and the last one returns that entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..copies.memory import attempted
from ..copies.module_io import Form, Inputs, States, hidden_of
from ..copies.pool import ModelPool
from ..copies.run import Instead, Replacements, Site, run
from ..copies.trace import Axes, Call, Calls, Paths, axes_of, families
from .layer_outputs import calls_returning
from .proofs import proof, tolerance_for


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
    # Back from (B, T, H) to the order in which the layers hold it: the inverse permutation.
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
    """Find what follows a trunk's layers, and prove it; None if nothing does: the head reads the last layer's output.

    The last layer reads the last state but one, and modules of its kind return the states before.

    Args:
        pool: Copies of the model.
        inputs: The inputs of a recorded pass, (B, T).
        calls: Its calls.
        trunk: The call whose output the head reads.
        states: The embedding layer's output and each layer's, L + 1 of (B, T, H).

    Raises:
        LookupError: If no modules are found that bring the last layer's output to the head.
    """
    hidden = trunk.hidden
    if hidden is None:  # for the type: a proved trunk has returned states
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
    hidden: Any = trunk.hidden  # not None, see `find_tail`
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
    # The trunk itself is among its calls, and is no layer.
    if last.main_input is None or last.output is None or last.path == trunk.path:
        return None
    axes = axes_of(last.main_input, states[-2])
    if axes is None or last.output.shape != last.main_input.shape:
        return None
    inner_states = states[1:-1]
    if inner_states and calls_returning(family, inner_states) is None:  # of a single layer there are none
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
            continue  # it returns another tensor, or returns what it was given, as dropout does in evaluation mode
        family = by_family[call.family]
        # The modules of this class are the layers if there is one for each state but the last, and it is their first.
        may_be_layers = len(family) > 1 and len(family) == len(states) - 1 and family[0] is call
        if not may_be_layers or calls_returning(family, states[:-1]) is None:
            continue
        # In another order of axes it could not stand among the states.
        if call.main_input is not None and call.main_input.shape == states[0].shape:
            return call.main_input
    return None
