"""Recording the calls of a model's layers in one pass, to run any of them again by itself."""

import functools
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, nn
from transformers import Cache, PretrainedConfig, PreTrainedModel

from ...copies.clone import clone
from ...copies.memory import reraise_out_of_memory
from ...copies.run import Site, run
from ...copies.trace import hidden_of, several_states
from ...errors import UnsupportedModelError
from ...inputs.batching import Batch
from ...model.proof_sample import reading
from ...model.task_model import TaskModel


@dataclass
class LayerCall:
    """One call of one layer during a forward pass over B texts.

    Attributes:
        path: Where the layer is in the model.
        layer: The layer, of a clone.
        args: Its positional arguments, without the hidden states.
        kwargs: Its keyword arguments, without the hidden states.
        name: The keyword under which the hidden states were passed; None if they were the first positional argument.
        states: The hidden states passed to it, (B, T, H).
        returned: The hidden states that it returned, (B, T, H).
    """

    path: str
    layer: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    name: str | None
    states: Tensor
    returned: Tensor

    def again(self, texts: Tensor | None = None) -> Tensor:
        """Call the layer again on the same hidden states.

        Args:
            texts: Rows of the batch to take, in any number and order, (N,); None for the batch as it was.

        Returns:
            (N, T, H).

        Raises:
            UnsupportedModelError: If the layer cannot be called again.
        """
        count = len(self.states)
        states = self.states if texts is None else self.states[texts.to(self.states.device)]  # (N, T, H)
        # An argument for a single text broadcasts to any number of copies.
        arguments = (self.args, self.kwargs)
        args, kwargs = arguments if texts is None or count == 1 else _taken(arguments, texts, count)
        args, kwargs = _copied(args), _copied(kwargs)
        try:
            returned = (
                self.layer(states, *args, **kwargs)
                if self.name is None
                else self.layer(*args, **kwargs, **{self.name: states})
            )
        except Exception as error:  # a layer may be of any form, and made for so many texts
            reraise_out_of_memory(error)
            raise UnsupportedModelError(
                f"needs layers that can be run by themselves, and {type(self.layer).__name__} cannot on {len(states)} "
                f"copies of a text: {type(error).__name__}"
            ) from error
        hidden = hidden_of(returned)
        if hidden is None:
            raise UnsupportedModelError(
                f"needs layers that return hidden states, and {type(self.layer).__name__} does not"
            )
        return hidden


def clone_for_layers(model: TaskModel) -> PreTrainedModel:
    """Clone the model for one call of one method, with layers that can be called again: they keep no cache."""
    copy = clone(model.module)
    config = getattr(copy, "config", None)
    for settings in (config, config.get_text_config()) if isinstance(config, PretrainedConfig) else ():
        settings.use_cache = False
    return cast(PreTrainedModel, copy)


def record_layers(model: TaskModel, copy: nn.Module, layers: Sequence[str], batch: Batch) -> list[LayerCall]:
    """Run the trunk of a clone once and record the calls of some of its layers.

    Returns:
        The calls in their order, one for each time that a module is called; without modules that return no hidden
        state, or several.
    """
    calls: list[LayerCall] = []

    def keep(path: str, layer: Any, *args: Any, **kwargs: Any) -> Any:
        others = dict(kwargs)
        name = "hidden_states" if "hidden_states" in others else None if args else next(iter(others))
        states = args[0] if name is None else others.pop(name)
        copied = _copied(args if name else args[1:]), _copied(others)  # now: the layer writes into caches
        output = layer(*args, **kwargs)
        hidden = hidden_of(output)
        if hidden is not None and not several_states(output):
            calls.append(LayerCall(path, copy.get_submodule(path), *copied, name, states, hidden))
        return output

    _ = model.parts.head  # raises if there is none, and says why there is no trunk
    with reading(copy, batch.inputs):
        instead = {path: functools.partial(keep, path) for path in layers}
        run(copy, batch.inputs, instead=instead, stop=Site(str(model.parts.trunk)))
    return calls


def pieces(texts: int, rows: int, row_size: int, budget: int) -> Iterator[tuple[slice, list[slice]]]:
    """Divide the work on (texts, rows) so that every piece holds at most `budget` units, and at least one row.

    Yields:
        A slice of the texts and the slices of their rows: several whole texts, or one text in pieces.
    """
    together = max(1, budget // (rows * row_size))
    step = rows if rows * row_size <= budget else max(1, budget // row_size)
    for start in range(0, texts, together):
        parts = [slice(i, min(i + step, rows)) for i in range(0, rows, step)]
        yield slice(start, min(start + together, texts)), parts


def _copied(value: Any) -> Any:
    """Copy the caches among a call's arguments: a layer writes into them each time that it is called."""
    if isinstance(value, Cache):
        return deepcopy(value)
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    return tuple(map(_copied, value)) if type(value) is tuple else value


def _taken(value: Any, texts: Tensor, count: int) -> Any:
    """Select rows of everything in `value` that has one for each of the `count` texts."""
    if isinstance(value, Tensor) and value.ndim > 1 and len(value) == count:
        return value[texts.to(value.device)]
    if isinstance(value, tuple | list):
        return type(value)(_taken(v, texts, count) for v in value)
    if isinstance(value, dict):
        return {k: _taken(v, texts, count) for k, v in value.items()}
    return value
