"""Bring a layer's output to the head through the modules that follow the layers.

The entries of `hidden_states` before the last one have not passed through a norm, a projection or a mean of streams
that may follow. So the trunk is run with its layers skipped, and the last one returns that entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..copies.memory import reraise_out_of_memory
from ..copies.pool import Pool
from ..copies.run import Form, Instead, Site, hidden_of, run, tensor_of
from ..copies.trace import Axes, Call, axes_of, families
from .layer_outputs import calls_returning
from .proofs import proof, tolerance_for


@dataclass(frozen=True)
class Tail:
    """The modules that follow the layers of a trunk."""

    layers: tuple[str, ...]
    form: Form  # how the last one returns a state
    axes: Axes  # how the layers hold what `hidden_states` shows as (B, T, H)


def run_trunk(
    pool: Pool[PreTrainedModel], trunk: str, instead: Mapping[str, Instead], inputs: Mapping[str, Any]
) -> Tensor:
    """Run a model up to the end of its trunk, (B, T, H), with other functions called instead of its layers."""
    stop = Site(trunk)
    with pool.lease() as copy:
        hidden = hidden_of(run(copy, inputs, instead=instead, stop=stop).recorded.get(stop))
    if hidden is None:
        raise LookupError(f"{trunk} returned no hidden states")
    return hidden


def bring_to_head(
    pool: Pool[PreTrainedModel], trunk: str, tail: Tail, state: Tensor, inputs: Mapping[str, Any]
) -> Tensor:
    """Return what the head reads, (B, T, H), where each layer of a trunk returns a given state, (B, T, H)."""
    layer_output = state.permute([tail.axes.index(axis) for axis in range(len(tail.axes))])
    return run_trunk(pool, trunk, dict.fromkeys(tail.layers, lambda *_, **__: tail.form.wrap(layer_output)), inputs)


@proof(
    compares="the last layer's output after what follows the layers, and what the head read",
    tolerance="rounding",
    why="a layer's state is brought to the head by the way that the last one's takes",
    when="first call; a pass in which the layers are skipped",
)
def find_tail(
    pool: Pool[PreTrainedModel],
    inputs: Mapping[str, Any],
    calls: list[Call],
    trunk: Call,
    states: tuple[Tensor, ...],
) -> Tail | None:
    """Find the modules that follow the layers of a trunk, and prove them; None if nothing follows.

    The last layer reads the last state but one, and modules of its kind return the states before. With all of these
    skipped, its own output must reach the head as in the pass. The states are L + 1 of (B, T, H).
    """
    hidden = trunk.hidden
    if hidden is None:
        raise LookupError("the trunk returned no hidden states")
    inside = [call for call in calls if call.path.startswith(trunk.path + ".") or call.path == trunk.path]
    by_family = families(inside)
    if axes_of(states[-1], hidden) and any(calls_returning(family, states[1:]) for family in by_family.values()):
        return None  # one kind of module gives every state, the last one too, which the head reads as it is
    for last in inside:
        family, last_output = by_family[last.family], tensor_of(last.returned)
        axes = axes_of(last.main_input, states[-2])
        if axes is None or last_output is None or last.main_input is None or last_output.shape != last.main_input.shape:
            continue
        if last.path == trunk.path or (states[2:] and calls_returning(family, states[1:-1]) is None):
            continue
        paths = dict.fromkeys(call.path for call in family if call.path.startswith(trunk.path + "."))
        tail = Tail(tuple(paths), Form.of(last.returned), axes)
        try:
            with torch.inference_mode():
                brought = bring_to_head(pool, trunk.path, tail, last_output.permute(axes), inputs)
        except Exception as error:  # a wrong guess may fail in any way; the next one is tried
            reraise_out_of_memory(error)
            continue
        if (brought - hidden).abs().max().item() <= tolerance_for(states[-1]):
            return tail
    raise LookupError("the modules between the last layer and the head could not be found")


def first_layer_input(calls: list[Call], states: tuple[Tensor, ...]) -> Tensor | None:
    """Return the first layer's input where `hidden_states` begins with that layer's output, else None."""
    by_family = families(calls)
    for call in calls:
        if axes_of(tensor_of(call.returned), states[0]) is None or axes_of(call.main_input, states[0]) is not None:
            continue
        family = by_family[call.family]
        # The modules of this class are the layers if there is one for each state but the last, and it is their first.
        are_layers = len(family) == len(states) - 1 > 1 and family[0] is call and calls_returning(family, states[:-1])
        if are_layers and call.main_input is not None and call.main_input.shape == states[0].shape:
            return call.main_input
    return None
