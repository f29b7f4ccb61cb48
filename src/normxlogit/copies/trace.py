"""Record the input and output of every module in one forward pass."""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils.generic import ModelOutput

from .module_io import CallArguments, Inputs, hidden_of, tensor_of
from .run import Site, run

Axes = tuple[int, ...]
"""The order in which a tensor's axes must be read to be (B, T, H); some trunks work time-first or channels-first."""

BATCH_FIRST: Axes = (0, 1, 2)
"""The axes of a state of shape (B, T, H)."""


@dataclass
class Call:
    """One call of one module."""

    path: str  # where the module is in the model
    main_input: Tensor | None = None  # its first argument, None if that is not a tensor
    returned: Any = None  # the output of the module
    end: int = -1  # how many calls had ended before this one did
    number: int = 1  # at which of its module's calls, counted from 1; layers may share one module

    @property
    def output(self) -> Tensor | None:
        """The main tensor in what the module returned."""
        return tensor_of(self.returned)

    @property
    def hidden(self) -> Tensor | None:
        """The hidden states in what the module returned."""
        return hidden_of(self.returned)

    @property
    def keeps_shape(self) -> bool:
        """Whether it reads states of (B, T, H) and returns others of the same shape, as a layer does."""
        state = self.main_input
        output = self.output
        if state is None or output is None:
            return False
        return state.ndim == 3 and state.is_floating_point() and state.shape == output.shape

    @functools.cached_property
    def family(self) -> str:
        """The path with its numbers blanked: the same for all layers of a stack."""
        return re.sub(r"\d+", "*", self.path)


Calls = list[Call]
"""The calls of a recorded pass, in the order in which they began."""

Paths = tuple[str, ...]
"""Where modules are in a model."""


def trace(model: nn.Module, inputs: Inputs) -> tuple[Calls, ModelOutput]:
    """Run a copy once and record every call of every module, in the order in which they began.

    Args:
        model: The copy.
        inputs: The arguments of its forward, by name.

    Returns:
        The calls, and the model's output with its hidden states.
    """
    calls: Calls = []
    running: Calls = []
    ended_count = itertools.count()
    call_numbers = Counter[str]()  # how often each module was called, by path

    def begin(path: str, call_module: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Enter a call in the list, then run the module, see `Instead`; `end` fills in what the call read and gave."""
        call_numbers[path] += 1
        call = Call(path, number=call_numbers[path])
        calls.append(call)
        running.append(call)
        return call_module(*args, **kwargs)

    def end(output: Any, arguments: CallArguments) -> None:
        """Record the input and output of the call that ends: the one of those running that began last.

        Nothing is returned, so that the output stays as it is, see `Replace`.
        """
        call = running.pop()
        first_argument = arguments.main_input
        call.main_input = first_argument if isinstance(first_argument, Tensor) else None
        call.returned, call.end = output, next(ended_count)

    paths = [path for path, _ in model.named_modules()]
    with torch.inference_mode():
        result = run(
            model,
            {**inputs, "output_hidden_states": True, "return_dict": True},
            replace={Site(path, call=0): end for path in paths},
            instead={path: functools.partial(begin, path) for path in paths},
        )
    return calls, result.output


def path_of(model: nn.Module, part: object) -> str | None:
    """Return the path of a module in a model, None if it is not there."""
    return next((path for path, module in model.named_modules() if module is part), None)


def families(calls: Iterable[Call]) -> dict[str, Calls]:
    """Group calls by their family, in their order."""
    by_family: dict[str, Calls] = {}
    for call in calls:
        by_family.setdefault(call.family, []).append(call)
    return by_family


def axes_of(tensor: Tensor | None, reference: Tensor) -> Axes | None:
    """Return the order of axes in which a tensor starts with the values of a reference, (B, T, H); None for none.

    Args:
        tensor: A tensor that may hold more positions behind those of the reference; None for none.
        reference: The values, (B, T, H).
    """
    if tensor is reference:
        return tuple(range(reference.ndim))
    if tensor is None or tensor.device != reference.device or tensor.dtype != reference.dtype:
        return None
    for axes in _matching_orders(tensor.shape, reference.shape):
        if torch.equal(tensor.permute(axes)[:, : reference.shape[1]], reference):
            return axes
    return None


@functools.lru_cache(maxsize=1024)
def _matching_orders(shape: torch.Size, reference: torch.Size) -> list[Axes]:
    """Return the orders of axes in which a shape equals a reference's, (B, T, ...), or is longer along the tokens."""
    if len(shape) != len(reference):
        return []
    text_count, token_count, *further_sizes = reference
    orders = itertools.permutations(range(len(shape)))
    shape_by_order = ((axes, [shape[axis] for axis in axes]) for axes in orders)
    return [
        axes
        for axes, (texts, tokens, *further) in shape_by_order
        if texts == text_count and tokens >= token_count and further == further_sizes
    ]
