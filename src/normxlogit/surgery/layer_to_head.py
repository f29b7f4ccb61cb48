"""The way from the last layer to the head, as the model itself goes it.

Many trunks end in more than their layers: a norm, a projection, a scaling, the mean of several streams. The entries of
`hidden_states` before the last have not gone that way. A *tailpiece* is a copy of the model's structure in which the
layers do nothing but hand on the state they are given: what comes out of its trunk is that state on the way's end.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .clone import instead_of, replaced, shallow_copy
from .isolated import Isolated
from .memory import refuse_to_hide
from .trace import Axes, Call, axes_of, hidden_of, in_form, tensor_of

__all__ = ["LayerToHead", "TrunkDone", "TrunkWithoutLayers", "before_layers", "find_layer_to_head"]


class TrunkDone(Exception):  # noqa: N818  # control flow, not an error
    """Ends a forward pass after the trunk: the head is not needed as the model would run it."""


class TrunkWithoutLayers:
    """A copy of a model's structure that runs as far as its trunk, and in it everything but the layers.

    Args:
        model: A structural clone of the model.
        trunk: Path of the trunk.
        layers: What each layer's path does instead: called with the layer and what the layer is given.
    """

    def __init__(self, model: PreTrainedModel, trunk: str, layers: Mapping[str, Callable[..., Any]]) -> None:
        self._seen = threading.local()
        copy: nn.Module = model
        for path, forward in layers.items():
            copy = replaced(copy, path, instead_of(copy.get_submodule(path), forward))
        copy = replaced(copy, trunk, shallow_copy(copy.get_submodule(trunk)))
        copy.get_submodule(trunk).register_forward_hook(self._stop)
        self._model = Isolated(copy)

    def __call__(self, inputs: Mapping[str, Any]) -> Tensor:
        """Return what the trunk gives, (B, T, H)."""
        with contextlib.suppress(TrunkDone):
            self._model(**inputs)
        found: Tensor = self._seen.__dict__.pop("hidden")
        return found

    def _stop(self, _: nn.Module, __: Any, output: Any) -> None:
        self._seen.hidden = hidden_of(output)
        raise TrunkDone


class LayerToHead:
    """What follows the layers of a trunk.

    Args:
        model: A structural clone of the model.
        trunk: Path of the trunk.
        layers: Paths of the layers.
        returned: What the last layer returned in a trial, for its form.
        axes: How the layers hold what `hidden_states` shows as (B, T, H).
    """

    def __init__(self, model: PreTrainedModel, trunk: str, layers: list[str], returned: Any, axes: Axes) -> None:
        self._held = threading.local()
        self._back = tuple(axes.index(axis) for axis in range(len(axes)))
        self._form = returned
        self._trunk = TrunkWithoutLayers(model, trunk, dict.fromkeys(layers, self._hand_on))

    def __call__(self, state: Tensor, inputs: Mapping[str, Any]) -> Tensor:
        """Bring a layer's output to the head.

        Args:
            state: An entry of `hidden_states`, (B, T, H) in most trunks.
            inputs: The model's inputs.

        Returns:
            What the head reads, (B, T, H).
        """
        self._held.state = state.permute(self._back)
        try:
            return self._trunk(inputs)
        finally:
            del self._held.state

    def _hand_on(self, *_: Any, **__: Any) -> Any:
        return in_form(self._form, self._held.state)


def find_layer_to_head(
    model: PreTrainedModel,
    inputs: Mapping[str, Any],
    calls: list[Call],
    trunk: Call,
    states: tuple[Tensor, ...],
    tolerance: float,
) -> LayerToHead | None:
    """Find what stands between the last layer and the head, and prove it.

    Args:
        model: A structural clone of the model.
        inputs: A small batch.
        calls: What the modules did with it.
        trunk: The call of the trunk.
        states: The embedding layer's output and every layer's.
        tolerance: Largest difference that is rounding.

    Returns:
        The way, None if nothing stands there.

    Raises:
        LookupError: If no way is found that gives what the head read.
    """
    hidden = trunk.hidden
    if hidden is None:
        raise LookupError("the trunk returned no hidden states")
    inside = [call for call in calls if call.path.startswith(trunk.path + ".") or call.path == trunk.path]
    families: dict[str, list[Call]] = {}
    for call in inside:
        families.setdefault(call.family, []).append(call)
    if axes_of(states[-1], hidden) and any(_follow(family, states[1:]) for family in families.values()):
        return None  # one kind of module gives every state, the last one too, which the head reads as it is
    lasts = [call for call in inside if call.given is not None and axes_of(call.given, states[-2]) is not None]
    for last in lasts:
        found = _follow(families[last.family], states[1:-1]) if len(states) > 2 else []
        raw = tensor_of(last.returned)
        if found is None or raw is None or last.given is None:
            continue
        axes = axes_of(last.given, states[-2])
        if axes is None or last.path == trunk.path or raw.shape != last.given.shape:
            continue
        try:
            paths = [call.path for call in families[last.family] if call.path.startswith(trunk.path + ".")]
            tail = LayerToHead(model, trunk.path, paths, last.returned, axes)
            with torch.inference_mode():
                difference = (tail(raw.permute(axes), inputs) - hidden).abs().max().item()
        except Exception as error:  # a wrong guess may fail in any way; the next one is tried
            refuse_to_hide(error)
            continue
        if difference <= tolerance:
            return tail
    raise LookupError("no way was found from the last layer's output to what the head reads")


def before_layers(calls: list[Call], states: tuple[Tensor, ...]) -> Tensor | None:
    """Return what the first layer was given, if `hidden_states` begins only after it, else None."""
    for call in calls:
        if axes_of(tensor_of(call.returned), states[0]) is None or axes_of(call.given, states[0]) is not None:
            continue
        family = [other for other in calls if other.family == call.family]
        whole = len(family) == len(states) - 1 > 1 and family[0] is call and call.given is not None
        if whole and call.given is not None and call.given.shape == states[0].shape and _follow(family, states[:-1]):
            return call.given
    return None


def _follow(calls: list[Call], states: tuple[Tensor, ...]) -> list[Call] | None:
    """Return the calls that gave these states, one after the other; None if one of them was returned by none."""
    found, start = [], 0
    for state in states:
        for place in range(start, len(calls)):
            if axes_of(tensor_of(calls[place].returned), state) is not None:
                found.append(calls[place])
                start = place + 1
                break
        else:
            return None
    return found
