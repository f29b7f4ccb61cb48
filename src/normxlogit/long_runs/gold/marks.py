"""Gold labels that are written as a 0 or a 1 for each label."""

from collections.abc import Sequence
from dataclasses import replace

from ...errors import InputError
from .meaning import ID2LABEL, GoldLabels
from .model_labels import ModelLabels
from .values import Value

Row = Sequence[Value]
"""The entries of a cell."""


def are_marks(rows: Sequence[Row], label_count: int) -> bool:
    """Return whether each row has a 0 or a 1 for each label; otherwise rows list the labels that are true.

    Args:
        rows: The entries of each cell; empty rows have no gold label and say nothing.
        label_count: How many labels there are.
    """
    rows = [row for row in rows if row]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or not all(map(_holds_zeros_and_ones, rows)):
        return False
    width = widths.pop()
    if width == 1:  # a single entry is a label
        return False
    if width == 2 and label_count > 2:
        return not all(map(_may_be_two_indices, rows))  # a row such as (1, 1) can only be marks
    return True  # indices in a list differ from each other, and more than two zeros and ones do not


def _holds_zeros_and_ones(row: Row) -> bool:
    """Return whether all entries are zeros and ones, also as booleans or floats."""
    return all(entry in (0, 1) for entry in row)


def _may_be_two_indices(row: Row) -> bool:
    """Return whether two zeros and ones may be the indices of two true labels: whole numbers that differ."""
    return row[0] != row[1] and all(type(entry) is int for entry in row)


def indices_of_ones(row: Row) -> list[Value]:
    """Return the indices of the ones among zeros and ones."""
    return [index for index, mark in enumerate(row) if mark]


def order_of_marks(width: int, labels: ModelLabels, meaning: GoldLabels) -> GoldLabels:
    """Return the meaning of the values after zeros and ones are replaced by the indices of the ones.

    Args:
        width: How many zeros and ones each text has.
        labels: The labels of the model.
        meaning: What the caller says: the names of the labels in the order of the zeros and ones, or that this order is
            the model's.

    Raises:
        InputError: If there are not as many labels, or nothing says which they are.
    """
    marks = f"gold labels are {width} zeros and ones for each text"
    if meaning.names:
        if len(meaning.names) != width:
            raise InputError(f"{marks}, and gold_labels has {len(meaning.names)} names")
        return meaning
    has_larger_index = max(labels.names, default=0) >= width
    if has_larger_index or (labels.complete and len(labels.names) < width):
        raise InputError(f"{marks}, and the labels of the model are {labels}")
    if meaning.count_labels or labels.are_default_names:
        return replace(meaning, count_labels=True)
    raise InputError(
        f"{marks}, and nothing says which labels these are: gold_labels (--gold-labels) is {ID2LABEL!r} if they are in "
        f"the order of the model's ({labels}), or the list of their names"
    )
