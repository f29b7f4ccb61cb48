"""Resolve a caller's layers to numbers."""

import operator
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex

from ..errors import MethodError
from ..tasks.targets import All, is_choice
from .task_model import TaskModel

Layers = All | SupportsIndex | Sequence[SupportsIndex] | None
"""Which layers: `ALL`, a number from 1, several, or None for the model's answer as it is."""


ReadAt = int | Literal["first-half", "middle", "all"]
"""Where the frozen network is read, see `FrozenGradient`."""


def layer_numbers(layers: Layers, model: TaskModel) -> tuple[int, ...]:
    """Return the caller's layers as numbers from 1.

    Raises:
        MethodError: If the model has no such layer, or these are no layers.
        UnsupportedModelError: If the model's layers cannot be read.
    """
    if layers is None:
        return ()
    if isinstance(layers, All):
        return tuple(range(1, model.layer_count() + 1))
    several: Any = layers
    several = several.tolist() if getattr(several, "ndim", 0) == 1 else several  # of an array or a tensor
    choices: Sequence[Any] = (
        several if isinstance(several, Sequence) and not isinstance(several, str | bytes) else [several]
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


def layers_read(read_at: ReadAt, count: int, first: int = 0) -> tuple[int, ...]:
    """Return the layers at whose outputs the frozen network is read, 0 for the embeddings.

    Args:
        read_at: As in `FrozenGradient`.
        count: How many layers the model has.
        first: The first layer that several of them begin with, 0 or 1.
    """
    if read_at == "middle":
        return (count // 2,)
    if isinstance(read_at, str):
        last = count - 1 if read_at == "all" else min(max(count // 2, 1), count - 1)
        return tuple(range(first, last + 1)) or (0,)
    layer = count + read_at if read_at < 0 else read_at
    if not 0 <= layer <= count:
        raise MethodError(f"read_at={read_at}: there are layers 1 to {count}")
    return (layer,)
