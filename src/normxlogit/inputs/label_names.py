"""Names of labels as a caller gives them."""

from collections.abc import Iterable, Mapping, Set
from typing import Any

from ..errors import InputError


def label_names(labels: Iterable[str] | None) -> tuple[str, ...]:
    """Return the label names that a caller gave: in order, as `id2label` or `label2id`, or as a data set's feature."""
    labels = getattr(labels, "names", labels) if hasattr(labels, "int2str") else labels
    if isinstance(labels, Mapping):
        is_id2label = all(isinstance(name, str) for name in labels.values())
        pairs = labels.items() if is_id2label else [(index, name) for name, index in labels.items()]
        by_index: Any = {str(index): name for index, name in pairs}
        labels = [by_index.get(str(index)) for index in range(len(by_index) or 1)]  # None if not counted from 0
    is_ordered = isinstance(labels, Iterable | None) and not isinstance(labels, str | Set)
    names = () if labels is None or not is_ordered else tuple(labels)
    if not is_ordered or not all(isinstance(name, str) for name in names):
        raise InputError("labels are a list of names in the order of the outputs, such as labels=['no', 'yes']")
    return tuple(map(str, names))
