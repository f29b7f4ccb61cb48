"""Single layers of trunks whose `hidden_states` cannot be brought to the head one by one.

Some trunks pass several streams on, run two stacks in turns, or work on ever fewer states. What all of them have is
layers that hand a state to the next. *EarlyExit* lets the layers after the wanted one rest: each hands on what it was
given, and the model itself does all that stands between. Where the layers' outputs can be read directly, this gives
the same states, at the price of a pass for each layer.
"""

import threading
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from .layer_to_head import TrunkWithoutLayers
from .run import main_input
from .trace import Call, tensor_of

__all__ = ["EarlyExit", "handing_layers"]


class EarlyExit:
    """The trunk's output after each layer, the later ones resting.

    Args:
        model: A structural clone of the model.
        trunk: The call of the trunk.
        calls: What the modules did in a trial.
        inputs: What it read.

    Raises:
        LookupError: If the trunk has no layers that hand states on.
    """

    def __init__(self, model: PreTrainedModel, trunk: Call, calls: list[Call], inputs: Mapping[str, Any]) -> None:
        layers = handing_layers([call for call in calls if call.end < trunk.end])
        last = {call.family: call for call in layers}.values()
        reaching = {call.family for call in last if _reaches_head(model, trunk, call, inputs)}
        layers = [call for call in layers if call.family in reaching]
        if not layers:
            raise LookupError("no layer hands on a state that reaches the head")
        self.count = len(layers)
        self._turn = threading.local()
        self._trunk = TrunkWithoutLayers(model, trunk.path, {call.path: self._in_turn for call in layers})

    def __call__(self, inputs: Mapping[str, Any], layer: int) -> Tensor:
        """Run the trunk with the layers after `layer` at rest.

        Args:
            inputs: The model's inputs.
            layer: 1 to `count`, in the order in which the layers are run.

        Returns:
            What the head reads, (B, T, H).
        """
        self._turn.done, self._turn.last = 0, layer
        return self._trunk(inputs)

    def _in_turn(self, layer: nn.Module, *args: Any, **kwargs: Any) -> Any:
        output = layer(*args, **kwargs)  # also at rest: caches and recurrent states must be there
        self._turn.done += 1
        return output if self._turn.done <= self._turn.last else _at_rest(output, args, kwargs)


def handing_layers(calls: list[Call]) -> list[Call]:
    """Return the outermost numbered modules that give a state of the shape given, which the next one takes as it is."""
    found: list[Call] = []
    for call in calls:
        output = tensor_of(call.returned)
        numbered = call.path.rpartition(".")[2].isdecimal()
        nested = any(call.path.startswith(f"{outer.path}.") for outer in found)
        if not numbered or nested or call.given is None or output is None:
            continue
        if call.given.ndim == 3 and call.given.is_floating_point() and call.given.shape == output.shape:
            found.append(call)
    # What is added to a state instead of taking its place, as cross-attention in a list of its own is, is no layer.
    kept = {c.family for c in found if any(o.given is tensor_of(c.returned) for o in calls if o.path != c.path)}
    return [call for call in found if call.family in kept]


def _reaches_head(model: PreTrainedModel, trunk: Call, layer: Call, inputs: Mapping[str, Any]) -> bool:
    """Return whether a layer's state goes on to the head, and does not only decide something, as a patcher's does."""

    def nudged(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        output = module(*args, **kwargs)
        state = tensor_of(output)
        if state is not None:
            state.add_(state.roll(1, -1), alpha=1e-3)
        return output

    found = TrunkWithoutLayers(model, trunk.path, {layer.path: nudged})(inputs)
    return trunk.hidden is not None and not torch.equal(found, trunk.hidden)


def _at_rest(output: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return a layer's output with the states that it was given in the place of its own."""
    if isinstance(output, Tensor):
        return main_input(args, kwargs)
    if isinstance(output, ModelOutput):
        fields = dict(output)
    else:
        fields = dict(zip(getattr(output, "_fields", range(len(output))), output, strict=True))
    given = {name: value for name, value in (*enumerate(args), *kwargs.items()) if isinstance(value, Tensor)}
    states = {name: value for name, value in fields.items() if isinstance(value, Tensor) and value.ndim == 3}
    for name in [*(n for n in states if n in kwargs), *(n for n in states if n not in kwargs)]:
        like = [
            n for n, value in given.items() if value.shape == states[name].shape and value.dtype == states[name].dtype
        ]
        source = name if name in kwargs and name in like else next(iter(like), None)
        if source is not None:
            fields[name] = given.pop(source)
    if isinstance(output, ModelOutput):
        return type(output)(**fields)
    return output._replace(**fields) if hasattr(output, "_replace") else type(output)(fields.values())
