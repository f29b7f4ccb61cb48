"""The values of a column of gold labels as Python's own, whatever library holds them."""

import math
from typing import Any

from ...errors import InputError
from ...inputs.texts import plain_cell
from ...text.same import word_key

Value = bool | float | str
"""A gold label as a plain value."""


def entries_of(cell: Any) -> list[Value]:
    """Return the entries of a list of labels, or one label alone, without missing ones.

    Raises:
        InputError: If an entry is a collection.
    """
    cell = plain_cell(cell)
    entries = cell if isinstance(cell, list | tuple | set | frozenset) else [cell]
    values = map(_plain_value, entries)
    return [value for value in values if value is not None]


def value_text(value: Any) -> str:
    """Return the text by which a value is compared: 1, 1.0 and "1" are the same, 1 and True are not."""
    value = plain_cell(value)
    number = whole_number_of(value)
    text = str(value) if number is None else str(number)
    return word_key(text)


def whole_number_of(value: Any) -> int | None:
    """Return a whole number, also of digits or a float, as an integer; None for anything else, also for booleans."""
    number = _number_of(value)
    return int(number) if number is not None and number.is_integer() else None


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number, also one that is written as text."""
    number = _number_of(value)
    return number is not None and math.isfinite(number)


def _number_of(value: Any) -> float | None:
    """Return a value as a number, also one that is written as text; None for booleans and for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _plain_value(value: Any) -> Value | None:
    """Return a label as a Python boolean, number or string, None if it is missing or blank."""
    value = plain_cell(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if _is_missing(value):
        return None
    if hasattr(value, "__iter__") and not isinstance(value, str):
        raise InputError(f"a gold label is a name, a number or a boolean, not a {type(value).__name__}: {value!r}")
    return value if isinstance(value, bool | int | float | str) else str(value)


def _is_missing(value: Any) -> bool:
    """Return whether a cell holds no label: None, NaN, pandas' NA or blank text."""
    if isinstance(value, str):
        return not value.strip()
    is_none = value is None or type(value).__name__ == "NAType"  # pandas' NA, which has no truth value
    return is_none or bool(value != value)  # NaN alone differs from itself
