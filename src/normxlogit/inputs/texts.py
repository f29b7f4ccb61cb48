"""What a user may call texts: one or many, in any container, checked one by one."""

import operator
from collections.abc import Iterable, Mapping, Set
from typing import Any

from ..errors import InputError

__all__ = ["Text", "counted", "read_texts"]

Text = str | tuple[str, str]
"""A text, or a pair of them."""


def read_texts(inputs: Any) -> tuple[list[Text], bool]:
    """Return the texts of whatever holds them, and whether it was a single one.

    Args:
        inputs: A string, a pair (tuple of two strings), or any iterable of these with an order: a list, generator,
            array, pandas Series, column of a data set.

    Raises:
        InputError: If something else was given, or one of the texts is empty or no text; the message names its place.
    """
    if getattr(inputs, "ndim", None) == 0:  # an array that holds a single text
        inputs = inputs.item()
    if isinstance(inputs, str | tuple):
        return [_text(inputs, 0)], True
    _check_container(inputs)
    return [_text(item, place) for place, item in enumerate(inputs)], False


def counted(number: Any, name: str) -> int:
    """Return a count that a caller gave, of any integer type.

    Args:
        number: The count.
        name: What to call it in the error.

    Raises:
        InputError: If it is no whole number from 1.
    """
    try:
        found = 0 if isinstance(number, bool) else operator.index(number)
    except (TypeError, RuntimeError, ValueError):  # a tensor of several elements, or of floats
        found = 0
    if found < 1:
        raise InputError(f"{name} must be a positive whole number, not {number!r}")
    return found


def _check_container(inputs: Any) -> None:
    kind = type(inputs).__name__
    if isinstance(inputs, bytes | bytearray | memoryview):
        raise InputError(f"a text was given as {kind}; decode it first, as in data.decode('utf-8')")
    if getattr(inputs, "ndim", 1) > 1:
        raise InputError(f"a {kind} with several columns was given; pass one column, or a list of pairs (tuples)")
    if isinstance(inputs, Set):
        raise InputError(f"a {kind} has no order, so the results could not be told apart; pass a list")
    if isinstance(inputs, Mapping) or not isinstance(inputs, Iterable):
        raise InputError(f"cannot read texts from a {kind}; pass a string, a pair (tuple of two), or a list of them")


def _text(item: Any, place: int) -> Text:
    parts = item if isinstance(item, tuple) else (item,)
    if not all(isinstance(part, str) for part in parts) or len(parts) > 2 or item == ():
        raise InputError(f"input {place} must be a string or a pair (tuple of two strings), not {_kind(item)}")
    if isinstance(item, tuple) and len(parts) == 1:
        raise InputError(f"input {place} is a tuple of one string; a pair has two, and a single text is a plain string")
    for part in parts:
        _check_characters(part, place)
    if not any(part.strip() for part in parts):
        raise InputError(f"input {place} is empty; there is no token to explain")
    found = tuple(str(part) for part in parts)  # numpy's strings become plain ones
    return found[0] if len(found) == 1 else (found[0], found[1])


def _check_characters(text: str, place: int) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"input {place} holds half a character (a lone surrogate) at {error.start}; it was decoded wrongly, read "
            "it again as UTF-8"
        ) from None


def _kind(item: Any) -> str:
    if isinstance(item, tuple):
        return f"a tuple of {', '.join(type(part).__name__ for part in item)}" if item else "an empty tuple"
    return type(item).__name__ + (" (a pair is a tuple)" if isinstance(item, list) else "")
