"""Record the calls of a model's layers in one pass, so that each layer can be run again by itself."""

import functools
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_map
from transformers import Cache

from ..compat import without_probabilities
from ..copies.module_io import Inputs, hidden_of, several_states
from ..copies.run import Site, run
from ..errors import UnsupportedModelError
from ..inputs.batches import Batch
from ..model.model_errors import input_errors, named_errors
from ..model.task_model import TaskModel


@dataclass
class LayerCall:
    """One call of one layer during a forward pass over B texts."""

    path: str  # where the layer is in the model
    layer: nn.Module  # the layer, of a clone
    args: tuple[Any, ...]  # its positional arguments, without the hidden states
    kwargs: Inputs  # its keyword arguments, without the hidden states
    keyword: str | None  # that of the hidden states; None if they were the first positional argument
    states: Tensor  # the hidden states passed to it, (B, T, H)
    returned: Tensor  # the hidden states that it returned, (B, T, H)

    def call_again(self, texts: Tensor | None = None) -> Tensor:
        """Call the layer again on rows of the batch in any order, (N,), or all; return its output, (N, T, H)."""
        count = len(self.states)
        states = self.states if texts is None else self.states[texts.to(self.states.device)]  # (N, T, H)
        # An argument for a single text broadcasts to any number of copies.
        arguments = (self.args, self.kwargs)
        if texts is not None and count > 1:
            arguments = _select_texts(arguments, texts, count)
        args, kwargs = _copy_caches(arguments)
        cannot = (
            f"needs layers that can be run by themselves, and {type(self.layer).__name__} cannot on {len(states)} "
            "copies of a text"
        )
        with named_errors(cannot, UnsupportedModelError):  # a layer may be of any form, and made for so many texts
            if self.keyword is None:
                returned = self.layer(states, *args, **kwargs)
            else:
                returned = self.layer(*args, **kwargs, **{self.keyword: states})
        hidden = hidden_of(without_probabilities(returned))
        if hidden is None:
            raise UnsupportedModelError(
                f"needs layers that return hidden states, and {type(self.layer).__name__} does not"
            )
        return hidden


def record_layers(model: TaskModel, copy: nn.Module, layers: Sequence[str], batch: Batch) -> list[LayerCall]:
    """Run the trunk of a clone once and return all calls of some of its layers, in their order.

    Left out are those of modules that return no hidden state, or several.

    Args:
        model: The model.
        copy: The clone that runs.
        layers: The paths of the layers.
        batch: B texts.
    """
    calls: list[LayerCall] = []

    def record_call(path: str, call_layer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a layer, record the call, and return the layer's output."""
        keyword = _keyword_of_states(args, kwargs)
        if keyword is None:
            states, other_args = args[0], args[1:]
        else:
            states, other_args = kwargs[keyword], args
        other_kwargs = {name: value for name, value in kwargs.items() if name != keyword}
        # Before the call, in which the layer writes into caches.
        copied_args, copied_kwargs = _copy_caches((other_args, other_kwargs))
        output = call_layer(*args, **kwargs)
        returned = hidden_of(without_probabilities(output))
        if returned is not None and not several_states(output):
            called_layer = copy.get_submodule(path)
            calls.append(LayerCall(path, called_layer, copied_args, copied_kwargs, keyword, states, returned))
        return output

    _ = model.parts.head  # raises the reason if no trunk is known; so the path below is no "None"
    with input_errors(copy, batch.inputs):
        instead = {path: functools.partial(record_call, path) for path in layers}
        run(copy, batch.inputs, instead=instead, stop=Site(str(model.parts.trunk)))
    return calls


def _keyword_of_states(args: Sequence[Any], kwargs: Inputs) -> str | None:
    """Return the keyword by which a layer is given hidden states; None if they are the first positional argument."""
    if "hidden_states" in kwargs:
        return "hidden_states"
    return None if args else next(iter(kwargs))  # the first keyword, as `CallArguments.main_input` takes it


def split_work(texts: int, rows: int, row_size: int, budget: int) -> Iterator[tuple[slice, list[slice]]]:
    """Yield pieces of the work on (texts, rows) of at most `budget` units each, and at least one row.

    Each is a slice of the texts and slices of their rows: several whole texts, or one text in pieces.

    Args:
        texts: How many texts there are.
        rows: How many rows each has.
        row_size: Units of work of a row of one text.
        budget: Most units at once.
    """
    # Several texts only where all of their rows fit: otherwise one, in pieces.
    texts_at_once = max(1, budget // (rows * row_size))
    rows_at_once = rows if rows * row_size <= budget else max(1, budget // row_size)
    for first_text in range(0, texts, texts_at_once):
        row_slices = [slice(start, min(start + rows_at_once, rows)) for start in range(0, rows, rows_at_once)]
        yield slice(first_text, min(first_text + texts_at_once, texts)), row_slices


def _is_cache(value: Any) -> bool:
    return isinstance(value, Cache)


def _copy_caches(arguments: Any) -> Any:
    """Return a call's arguments with copies of its caches, which a layer writes into."""
    return tree_map(lambda value: deepcopy(value) if _is_cache(value) else value, arguments, is_leaf=_is_cache)


def _select_texts(arguments: Any, texts: Tensor, count: int) -> Any:
    """Return arguments with some rows selected of every tensor that has a row for each of `count` texts."""

    def selected(value: Any) -> Any:
        # One axis is of positions, and not of texts, even if there are as many.
        has_rows = isinstance(value, Tensor) and value.ndim > 1 and len(value) == count
        return value[texts.to(value.device)] if has_rows else value

    return tree_map(selected, arguments, is_leaf=_is_cache)
