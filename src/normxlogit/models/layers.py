"""Which layers a caller means."""

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

from ..errors import MethodError
from ..tasks.targets import All, is_choice
from .task_model import TaskModel

__all__ = ["Layers", "layer_numbers"]

Layers = All | SupportsIndex | Sequence[SupportsIndex] | None
"""Which layers: `ALL`, a number from 1, several, or None for the model's answer as it is."""


def layer_numbers(layers: Layers, model: TaskModel) -> tuple[int, ...]:
    """Return the layers asked for as numbers from 1.

    Raises:
        MethodError: If the model has no such layer, or these are no layers.
        UnsupportedModelError: If the model's layers cannot be read.
    """
    if layers is None:
        return ()
    if isinstance(layers, All):
        return tuple(range(1, model.layer_count() + 1))
    choices: Sequence[Any] = (
        layers if isinstance(layers, Sequence) and not isinstance(layers, str | bytes) else [layers]
    )
    if not choices:
        raise MethodError("the list of layers is empty; None explains the model's answer as it is")
    numbers = []
    for layer in choices:
        if not is_choice(layer) or isinstance(layer, str):
            raise MethodError(f"layers must be ALL, a number or several numbers, not {layer!r}")
        numbers.append(operator.index(layer))
    count = model.layer_count()
    for number in numbers:
        if not 1 <= number <= count:
            raise MethodError(f"no layer {number}; the model has layers 1 to {count}")
    return tuple(numbers)
