"""Names of labels as a caller gives them."""

from collections.abc import Iterable, Mapping, Set
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
    names = tuple(labels) if is_ordered else (None,)
    if not all(isinstance(name, str) for name in names):
        raise InputError("labels are a list of names in the order of the outputs, such as labels=['no', 'yes']")
    return tuple(map(str, names))


def _in_order(labels: Mapping[Any, Any]) -> list[Any]:
    """Return the names of `id2label` or `label2id` by their indices, None for an index that is missing."""
    is_id2label = all(isinstance(name, str) for name in labels.values())
    by_index = {str(index): name for index, name in labels.items()}
    if not is_id2label:
        by_index = {str(index): name for name, index in labels.items()}
    return [by_index.get(str(index)) for index in range(max(len(labels), 1))]
