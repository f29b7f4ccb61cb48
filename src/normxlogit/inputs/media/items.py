"""One picture or sound, or several in any container."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from numbers import Number
from typing import Any

import numpy as np

from ...errors import InputError
from ..texts import collected, named_columns


def media_items(inputs: Any, is_item: Callable[[Any], bool], kind: str) -> tuple[list[Any], bool]:
    """Return one or several pictures or sounds as a list, and whether it was a single one.

    Args:
        inputs: One of them; a list, generator, array, tensor, column, or Arrow array of them; or a frame, a table, a
            data set or a mapping with one column of them.
        is_item: Whether something is one of them.
        kind: "picture" or "sound", for errors.

    Raises:
        InputError: If it is something else.
    """
    inputs = as_array(_column(inputs, is_item, kind))
    if is_item(inputs):
        return [inputs], True
    if isinstance(inputs, Set | Mapping) or not isinstance(inputs, Iterable):
        raise InputError(f"a {kind} or a list of them is expected, not {type(inputs).__name__}")
    return [item.as_py() if hasattr(item, "as_py") else item for item in inputs], False


@contextmanager
def rewound(file: Any) -> Iterator[Any]:
    """Leave an open file where it was, so that it can be read again."""
    place = file.tell() if hasattr(file, "seek") else None
    try:
        yield file
    finally:
        if place is not None and not getattr(file, "closed", False):
            file.seek(place)


def decoded_base64(text: str) -> bytes:
    """Return the bytes of base64 or of a data URI.

    Raises:
        InputError: If it is neither.
    """
    try:
        return base64.b64decode(text.rpartition(",")[2], validate=True)
    except ValueError:
        raise InputError(f"{text[:60]}: not base64") from None


def number_axes(value: Any) -> int:
    """Return how many axes an array, a tensor or a column of numbers has; 0 for anything else."""
    dtype, shape = str(getattr(value, "dtype", "")).casefold().removeprefix("torch."), getattr(value, "shape", None)
    return len(shape) if shape is not None and dtype.startswith(("int", "uint", "float", "bfloat")) else 0


def detached(value: Any) -> Any:
    """Return a tensor without its graph, on the host and not in half precision, and anything else as it is."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return value.float() if value.is_floating_point() else value


def as_array(value: Any) -> Any:
    """Return lists in lists of numbers, or an Arrow array of them, as an array, and anything else as it is."""
    if hasattr(value, "to_numpy") and str(getattr(value, "type", "")).startswith(("int", "uint", "float", "double")):
        return value.to_numpy()
    depth, inner = 0, value
    while isinstance(inner, list | tuple) and inner:
        depth, inner = depth + 1, inner[0]
    if depth < 2 or not isinstance(inner, Number):
        return value
    try:
        return np.asarray(value)
    except ValueError:  # of several lengths: a list of sounds
        return value


def _column(inputs: Any, is_item: Callable[[Any], bool], kind: str) -> Any:
    """Return the only column of pictures or sounds of a frame, a table or a data set, and anything else as it is."""
    inputs = collected(inputs)
    columns = None if isinstance(inputs, Mapping) and is_item(inputs) else named_columns(inputs)
    if columns is None:
        return inputs
    item_columns = [name for name, column in columns.items() if _begins_with(column, is_item)]
    if len(item_columns) != 1:
        amount = "several columns" if item_columns else "no column"
        example = str((item_columns or list(columns) or ["name"])[0])
        raise InputError(
            f"a {type(inputs).__name__} with {amount} of {kind}s was given "
            f"({', '.join(map(repr, item_columns or columns))}); pass the column: data[{example!r}]"
        )
    return columns[item_columns[0]]


def _begins_with(column: Any, is_item: Callable[[Any], bool]) -> bool:
    """Return whether the first value of a column is a picture or a sound."""
    if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable):
        return False
    first: Any = next(iter(column), None)
    first = first.as_py() if hasattr(first, "as_py") else first
    return first is not None and not isinstance(first, Number) and is_item(as_array(first))
