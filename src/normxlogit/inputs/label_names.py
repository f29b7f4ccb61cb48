"""Names of labels as a caller gives them."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from ..errors import InputError


def label_names(labels: Any) -> tuple[str, ...]:
    """Return the label names that a caller gave: in order, as `id2label` or `label2id`, or as a data set's feature.

    Raises:
        InputError: If they are not names in an order, or a mapping does not count them from 0.
    """
    if hasattr(labels, "int2str"):  # of a data set
        labels = labels.names
    if isinstance(labels, Mapping):
        labels = _in_order(labels)
    if labels is None:
        return ()
    is_ordered = isinstance(labels, Iterable) and not isinstance(labels, str | Set)
    # Not a name, so that the check below refuses it.
    names = tuple(labels) if is_ordered else (None,)
    if not all(isinstance(name, str) for name in names):
        raise InputError("labels are a list of names in the order of the outputs, such as labels=['no', 'yes']")
    return tuple(map(str, names))


def _in_order(labels: Mapping[Any, Any]) -> list[Any]:
    """Return the names of `id2label` or `label2id` by their indices, None for an index that is missing."""
    is_id2label = all(isinstance(name, str) for name in labels.values())
    # As text, since JSON has no other keys.
    by_index = {str(index): name for index, name in labels.items()}
    if not is_id2label:
        by_index = {str(index): name for name, index in labels.items()}
    # Of an empty mapping one index is looked up, and is missing: it is refused.
    return [by_index.get(str(index)) for index in range(max(len(labels), 1))]


def with_class_names(values: Iterable[Any], class_names: Sequence[str]) -> list[Any]:
    """Return values with the names of classes for their numbers; all of them unchanged if there are no names."""
    numbers = range(len(class_names))
    return [class_names[value] if isinstance(value, int) and value in numbers else value for value in values]


def class_names_of(feature: Any) -> tuple[str, ...]:
    """Return the names of the classes of a column, or of the entries of its lists, none if it has no names.

    Args:
        feature: A feature of `datasets`, or the same as JSON, as the schema of a file holds it.
    """
    if dataclasses.is_dataclass(feature):
        feature = {"_type": type(feature).__name__, **vars(feature)}
    while isinstance(feature, list) and len(feature) == 1:  # how older versions write lists
        feature = feature[0]
    if not isinstance(feature, Mapping):
        return ()
    if "feature" in feature:  # of a list
        return class_names_of(feature["feature"])
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    return _usable_names(names) if isinstance(names, list | tuple) else ()


def _usable_names(names: Sequence[Any]) -> tuple[str, ...]:
    """Return names of classes; none where they are their numbers, which say nothing."""
    are_numbers = all(str(name).strip() == str(number) for number, name in enumerate(names))
    return () if are_numbers else tuple(map(str, names))
