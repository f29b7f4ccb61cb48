"""Gold labels, read from names, indices, digits, booleans or missing values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..results.base import Record
from ..results.targets import prediction_of

BOOLEANS = {"true": 1, "false": 0}


Gold = tuple[int | str, ...]
"""The gold labels of a text, by index or name: none if they are missing, several where several are true."""


def agrees(gold: Gold, name: str, id_: int) -> bool | None:
    """Return whether a predicted label is among the gold labels, None if they are missing."""
    return any(label == (name if isinstance(label, str) else id_) for label in gold) if gold else None


def read_gold(values: Sequence[Any], labels: Iterable[tuple[int, str]], *, tokens: bool = False) -> list[Gold]:
    """Read gold labels: strings, numbers, booleans, and None, NaN or "" where a label is missing; or lists of these.

    A value that is the name of a label means that label, where there is none also in other capitals or with spaces
    around it. Other whole numbers, digits and booleans are indices, as are all numbers where labels are tokens. A list
    holds the labels that are true of a text, or a 0 or a 1 for each label of the model.
    """
    labels = list(labels)
    rows = [_entries(value) for value in values]
    if _are_marks(rows, len(labels)):
        width = max(map(len, rows))
        if any(index >= width for index, _ in labels):
            raise InputError(f"gold labels are {width} zeros and ones for each text, and the model has more labels")
        return [tuple(i for i, mark in enumerate(row) if mark) for row in rows]
    index_of = {name: index for index, name in labels}
    return [tuple(_label(entry, index_of, tokens) for entry in row) for row in rows]


def matches_gold(results: Sequence[Record], gold: Sequence[Any]) -> list[bool | None]:
    """Return whether each result's prediction is its gold label; None without a prediction or gold label."""
    predictions = [prediction_of(result) for result in results]
    targets = [target for result in results for target in result.scored.targets]
    if any(target.kind in ("value", "cosine") for target in targets):
        raise InputError("a regression has no right and wrong labels: filter by a function of the results")
    labels = {(prediction.id, prediction.label) for prediction in predictions if prediction is not None}
    labels |= {(target.id, target.name) for target in targets if target.id is not None}
    right = read_gold(gold, labels, tokens=any(target.kind == "token" for target in targets))
    pairs = zip(predictions, right, strict=True)
    return [None if p is None else agrees(labels_of, p.label, p.id) for p, labels_of in pairs]


def _label(value: bool | float | str, index_of: Mapping[str, int], tokens: bool) -> int | str:
    """Return one label: by its exact name, by its name in other capitals, or by its index."""
    word = str(value).strip()
    if isinstance(value, str) and value in index_of:
        return value
    matches = [name for name in index_of if name.strip().casefold() == word.casefold()] if not tokens else []
    if len(matches) == 1:
        return matches[0]
    number = BOOLEANS.get(word.casefold(), word)
    try:
        index = int(float(number))
    except (ValueError, OverflowError):
        if word.startswith("[") and not tokens:
            raise InputError(f"gold label {word} is a list as text: pass map(json.loads, labels)") from None
        return word
    if str(index) in index_of and not tokens:
        return str(index)
    called_by_number = not tokens and any(name.isdecimal() and int(name) != i for name, i in index_of.items())
    if index < 0 or index != float(number) or called_by_number:
        raise InputError(f"gold label {value} is neither a label nor the index of one; None marks a missing label")
    return index


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


def _entries(value: Any) -> list[Any]:
    """Return the entries of a list of labels, or one label alone, as plain values without missing ones."""
    entries = _plain(value)
    entries = entries if isinstance(entries, list | tuple | set | frozenset) else [entries]
    return [label for entry in entries if (label := _plain_label(entry)) is not None]


def _plain_label(value: Any) -> bool | float | str | None:
    """Return a label as a Python boolean, number or string, None if it is missing or blank."""
    value = _plain(value)
    value = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    if value is None or type(value).__name__ == "NAType" or (isinstance(value, str) and not value.strip()):
        return None
    if hasattr(value, "__iter__") and not isinstance(value, str):
        raise InputError(f"a gold label is a name, a number or a boolean, not a {type(value).__name__}: {value!r}")
    if value != value:  # NaN
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)


def _plain(value: Any) -> Any:
    """Return a value of Arrow, numpy, torch or pandas as Python's own."""
    value = value.as_py() if hasattr(value, "as_py") else value
    return value.tolist() if hasattr(value, "tolist") else value
