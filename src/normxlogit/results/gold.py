"""Gold labels, read from names, indices, digits, booleans or missing values."""

from ast import literal_eval
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError

BOOLEANS = {"true": 1, "false": 0}

DIGITS = 18
"""Most digits of a number that may be an index."""


class Label(NamedTuple):
    """A label, by its name or by its index."""

    name: str | None = None
    id: int | None = None


class Gold(tuple[Label, ...]):
    """The gold labels of a text: none if they are missing, several where several are true."""

    __slots__ = ()

    def agrees(self, name: str, id_: int) -> bool | None:
        """Return whether a predicted label is among the gold labels, None if they are missing."""
        matches = [id_ == label.id if label.name is None else name == label.name for label in self]
        return any(matches) if matches else None


def read_gold(values: Sequence[Any], labels: Iterable[tuple[int, str]], *, tokens: bool = False) -> list[Gold]:
    """Read gold labels.

    A value that is the name of a label means that label, where there is none also in other capitals or with spaces
    around it. Other numbers, digits and booleans are indices, unless the labels are called by numbers that are not
    their indices (such as "1" to "5") or by "true" and "false": then they are names too. A 0 among numbers says that
    they are indices, where labels are called "1", "2" and so on.

    A list holds the labels that are true of a text, or a 0 or a 1 for each label of the model.

    Args:
        values: The values: strings, numbers of any type, booleans, and None, NaN or "" where a label is missing; or
            lists of these, also as text.
        labels: Index and name of every label that is known.
        tokens: Whether the labels are tokens of a vocabulary, of which numbers are always indices, and digits are where
            there is no such token.

    Raises:
        InputError: If a value cannot be a label, or there are not as many zeros and ones as labels.
    """
    labels = list(labels)
    rows = [_entries(value, written=not tokens) for value in values]
    if _are_marks(rows, len(labels)):
        width = max(map(len, rows))
        if any(index >= width for index, _ in labels):
            raise InputError(f"gold labels are {width} zeros and ones for each text, and the model has more labels")
        return [Gold(Label(id=i) for i, mark in enumerate(row) if mark) for row in rows]
    read = _reader([entry for row in rows for entry in row], labels, tokens)
    return [Gold(map(read, row)) for row in rows]


def _reader(entries: Iterable[Any], labels: Sequence[tuple[int, str]], tokens: bool) -> Callable[[Any], Label]:
    """Return a function that reads one gold label; the arguments are those of `read_gold`, lists flattened."""
    index_of = {name: index for index, name in labels}
    name_of_number = {number: name for name in index_of if (number := _number(name)) is not None}
    numbers_are_names = not tokens and any(number != index_of[name] for number, name in name_of_number.items())
    named_from_one = len(name_of_number) == len(index_of) and all(
        number == index_of[name] + 1 for number, name in name_of_number.items()
    )
    if named_from_one and any(_number(entry) == 0 for entry in entries):
        index_of, numbers_are_names = {}, False
    names_without_case: dict[str, list[str]] = {}
    for name in index_of:
        if not tokens or name.casefold() in BOOLEANS:
            names_without_case.setdefault(name.strip().casefold(), []).append(name)

    def read(value: Any) -> Label:
        """Return one label: by its exact name, by its name in other capitals, or by its index."""
        if str(value) in index_of and not (tokens and not isinstance(value, str)):
            return Label(str(value))
        word = str(value).strip().casefold()
        if len(names := names_without_case.get(word, [])) == 1:
            return Label(names[0])
        if word in BOOLEANS:
            if not BOOLEANS.keys().isdisjoint(names_without_case):
                return Label(word)
            value = BOOLEANS[word]
        number = _number(value)
        if number is None or number != int(number) or numbers_are_names:
            return Label(str(value) if number is None else name_of_number.get(number, str(value)))
        if number < 0:
            raise InputError(f"gold label {value} is neither a label nor the index of one; None marks a missing label")
        return Label(id=int(number))

    return read


def _are_marks(rows: Sequence[Sequence[Any]], count: int) -> bool:
    """Return whether each row has a 0 or a 1 for each of the labels; otherwise rows list the labels that are true.

    Indices in a list differ from each other: more than two zeros and ones are not indices, two are if there are more
    than two labels.
    """
    rows = [row for row in rows if row]
    entries = [entry for row in rows for entry in row]
    if len({len(row) for row in rows}) != 1 or not all(entry in (0, 1) for entry in entries) or len(rows[0]) < 2:
        return False
    return len(rows[0]) > 2 or count <= 2 or any(type(e) is not int for e in entries) or any(sum(r) != 1 for r in rows)


def _entries(value: Any, *, written: bool) -> list[Any]:
    """Return the entries of a list of labels, or one label alone, as plain values without missing ones.

    Args:
        value: The labels.
        written: Whether a text may be a list as pandas writes it to CSV, or JSON; a token of a vocabulary may be "[]".
    """
    if hasattr(value, "as_py"):  # of Arrow
        value = value.as_py()
    entries: Any = value
    if written and isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            entries = literal_eval(value)
    elif getattr(value, "ndim", None) and hasattr(value, "tolist"):
        entries = value.tolist()
    entries = entries if isinstance(entries, list | tuple | set | frozenset) else [entries]
    return [label for entry in entries if (label := _plain_label(entry)) is not None]


def _plain_label(value: Any) -> bool | int | float | Decimal | str | None:
    """Return a label as a Python boolean, number or string, None if it is missing or blank; dates become strings.

    Raises:
        InputError: If it is several values.
    """
    is_date = isinstance(value, np.datetime64 | np.timedelta64)  # whose items are numbers
    if hasattr(value, "item") and not is_date:  # of numpy and torch
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if isinstance(value, str):
        return value if value.strip() else None
    try:
        missing = value is None or bool(value != value)  # NaN and NaT
    except (TypeError, ValueError):  # pandas.NA is missing, an array is not
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
