"""Gold labels, read from names, indices, digits, booleans or missing values."""

from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError

BOOLEANS = {"true": 1, "false": 0}

DIGITS = 18
"""Most digits of a number that may be an index."""


class Gold(NamedTuple):
    """The gold label of a text, by name or by index; both are None if it is missing.

    Attributes:
        name: The label's name.
        id: Its index.
    """

    name: str | None = None
    id: int | None = None

    def agrees(self, name: str, id_: int) -> bool | None:
        """Return whether a predicted label is the gold label, None if that is missing."""
        if self.name is not None:
            return name == self.name
        return None if self.id is None else id_ == self.id


def read_gold(values: Sequence[Any], labels: Iterable[tuple[int, str]], *, tokens: bool = False) -> list[Gold]:
    """Read gold labels.

    A value that is the name of a label means that label, where there is none also in other capitals or with spaces
    around it. Other numbers, digits and booleans are indices, unless the labels are called by numbers that are not
    their indices (such as "1" to "5") or by "true" and "false": then they are names too. A 0 among numbers says that
    they are indices, where labels are called "1", "2" and so on.

    Args:
        values: The values: strings, numbers of any type, booleans, and None, NaN or "" where a label is missing.
        labels: Index and name of every label that is known.
        tokens: Whether the labels are tokens of a vocabulary, of which numbers are always indices, and digits are where
            there is no such token.
    """
    plain_values = [_plain_label(value) for value in values]
    index_of = {name: index for index, name in labels}
    name_of_number = {number: name for name in index_of if (number := _number(name)) is not None}
    numbers_are_names = not tokens and any(number != index_of[name] for number, name in name_of_number.items())
    named_from_one = len(name_of_number) == len(index_of) and all(
        number == index_of[name] + 1 for number, name in name_of_number.items()
    )
    if named_from_one and any(_number(value) == 0 for value in plain_values):
        index_of, numbers_are_names = {}, False
    names_without_case: dict[str, list[str]] = {}
    for name in index_of:
        if not tokens or name.casefold() in BOOLEANS:
            names_without_case.setdefault(name.strip().casefold(), []).append(name)

    def read(value: Any) -> Gold:
        """Return one label: by its exact name, by its name in other capitals, or by its index."""
        if value is None or (str(value) in index_of and not (tokens and not isinstance(value, str))):
            return Gold(None if value is None else str(value))
        word = str(value).strip().casefold()
        if len(names := names_without_case.get(word, [])) == 1:
            return Gold(names[0])
        if word in BOOLEANS:
            if not BOOLEANS.keys().isdisjoint(names_without_case):
                return Gold(word)
            value = BOOLEANS[word]
        number = _number(value)
        if number is None or number != int(number) or numbers_are_names:
            return Gold(str(value) if number is None else name_of_number.get(number, str(value)))
        if number < 0:
            raise InputError(f"gold label {value} is neither a label nor the index of one; None marks a missing label")
        return Gold(id=int(number))

    return [read(value) for value in plain_values]


def _plain_label(value: Any) -> bool | int | float | Decimal | str | None:
    """Return a label as a Python boolean, number or string, None if it is missing or blank; dates become strings.

    Raises:
        InputError: If it is several values.
    """
    is_date = isinstance(value, np.datetime64 | np.timedelta64)  # whose items are numbers
    for unpack in () if is_date else ("as_py", "item"):  # of Arrow; of numpy and torch
        if hasattr(value, unpack):
            try:
                value = getattr(value, unpack)()
            except (RuntimeError, ValueError):  # several numbers
                break
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if isinstance(value, str):
        return value if value.strip() else None
    try:
        missing = value is None or bool(value != value)  # NaN and NaT
    except (TypeError, ValueError, ArithmeticError):  # pandas.NA and a signalling NaN are missing, an array is not
        missing = not hasattr(value, "__len__")
    if missing:
        return None
    if isinstance(value, bool | int | float | Decimal):
        return value
    if hasattr(value, "__iter__"):
        raise InputError(f"a gold label is a name, a number or a boolean, not a {type(value).__name__}: {value!r}")
    return str(value)


def _number(value: Any) -> Decimal | None:
    """Return a value or its digits as a number; None if it is not a number, or too long for an index."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and number.adjusted() < DIGITS else None
