"""What the values of a column of gold labels mean, as far as the caller or the data set says it."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import InputError
from ...inputs.label_names import label_names
from ...inputs.texts import plain_cell
from .values import value_text, whole_number_of

ID2LABEL = "id2label"
"""What a caller writes where whole numbers count the labels of the model, as its configuration's `id2label` does."""

PAIRS = "pairs such as '1=negative 5=positive', where '3=' leaves rows out and quotes hold what has spaces"
"""What errors say of the pairs that a caller writes."""


@dataclass(frozen=True)
class GoldLabels:
    """What the values of a column of gold labels mean.

    Attributes:
        mapping: The label of the model, its name or index, that each value means, by the value's text (`value_text`);
            None for values whose rows are left out. Empty if the caller gives no mapping.
        names: The class names of the whole numbers 0, 1, ..., as in a `ClassLabel` of `datasets`; () without names.
        of_data_set: Whether the data set has these names, so that numbers in lists are always classes.
        count_labels: Whether a whole number is an index of the model's labels.
    """

    mapping: Mapping[str, str | int | None] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    of_data_set: bool = False
    count_labels: bool = False

    def name_of(self, number: int | None) -> str | None:
        """Return the class name of a whole number; None if it has none."""
        if number is None or not 0 <= number < len(self.names):
            return None
        return self.names[number]

    def key_of(self, value: Any) -> str | None:
        """Return the key of `mapping` for a value: its own text, or else that of its class name; None without a key."""
        class_name = self.name_of(whole_number_of(value))
        keys = [value_text(value)] if class_name is None else [value_text(value), value_text(class_name)]
        return next((key for key in keys if key in self.mapping), None)

    def leaves_out(self, value: Any) -> bool:
        """Return whether the caller's mapping leaves out the rows with a value."""
        key = self.key_of(value)
        return key is not None and self.mapping[key] is None


def meaning_of(gold_labels: Any, class_names: Sequence[str] = ()) -> GoldLabels:
    """Return what the values of a column mean.

    Args:
        gold_labels: What the caller says: a mapping of values to labels of the model (names, indices, or None for rows
            that are left out), the same as text, a list with the names of whole numbers counted from 0, a `ClassLabel`,
            "id2label" where they count the labels of the model, or None.
        class_names: The names that the data set has for whole numbers.

    Raises:
        InputError: If `gold_labels` is none of these.
    """
    if isinstance(gold_labels, GoldLabels):
        return gold_labels
    of_data_set = GoldLabels(names=tuple(class_names), of_data_set=bool(class_names))
    if gold_labels is None:
        return of_data_set
    if isinstance(gold_labels, str) and gold_labels.strip() == ID2LABEL:
        return GoldLabels(count_labels=True)
    if isinstance(gold_labels, str):
        return replace(of_data_set, mapping=_mapping_of(_pairs_of(gold_labels)))
    if isinstance(gold_labels, Mapping):
        return replace(of_data_set, mapping=_mapping_of(gold_labels.items()))
    return GoldLabels(names=label_names(gold_labels))  # a list, or a `ClassLabel`


def _mapping_of(pairs: Iterable[tuple[Any, Any]]) -> dict[str, str | int | None]:
    """Return the label that each value means, by the value's text, after checking that it means one label."""
    mapping: dict[str, str | int | None] = {}
    for value, label in pairs:
        text = value_text(value)
        if text in mapping and mapping[text] != label:
            raise InputError(f"gold_labels says twice what {value!r} means: {mapping[text]!r} and {label!r}")
        mapping[text] = _checked_label(label)
    return mapping


def _pairs_of(text: str) -> list[tuple[str, Any]]:
    """Return the pairs of a mapping that is written as VALUE=LABEL, or as a JSON object; None for an empty label."""
    try:
        if text.lstrip().startswith("{"):
            return list(json.loads(text).items())
        pairs = [pair.partition("=") for pair in shlex.split(text)]
    except ValueError:  # not JSON, or a quote that is not closed
        raise InputError(f"gold_labels (--gold-labels) cannot be read: expected {PAIRS}") from None
    if not pairs or not all(equals for _, equals, _ in pairs):
        raise InputError(f"gold_labels (--gold-labels) takes {ID2LABEL!r} or {PAIRS}, not {text!r}")
    return [(value, label or None) for value, _, label in pairs]


def _checked_label(label: Any) -> str | int | None:
    """Return the label that a value means, after checking that it is a name, an index or None."""
    label = plain_cell(label)
    if isinstance(label, bool) or not isinstance(label, str | int | None):
        raise InputError(f"gold_labels: a value means the name of a label, its index or None, not {label!r}")
    return label
