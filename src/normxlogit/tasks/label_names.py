"""Names that a caller gives the outputs of a model."""

from collections.abc import Iterable, Mapping, Set

from ..errors import InputError


def label_names(labels: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names that a caller gave, in any container that has an order."""
    # The names in a set have no order, and a mapping may count them in another.
    ordered = isinstance(labels, Iterable | None) and not isinstance(labels, str | Set | Mapping)
    names = () if labels is None or not ordered else tuple(labels)
    if not ordered or not all(isinstance(name, str) for name in names):
        raise InputError("labels are a list of names, such as labels=['no', 'yes']")
    return tuple(map(str, names))
