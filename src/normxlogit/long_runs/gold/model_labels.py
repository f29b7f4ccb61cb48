"""The labels that a model answers with, found by what a column of gold labels calls them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...results.units.characters import one_line
from ...text.same import matching_names

LISTED = 5
"""Most labels that an error lists."""


@dataclass(frozen=True)
class ModelLabels:
    """The labels that a model answers with.

    Attributes:
        names: Their names by their indices.
        complete: Whether these are all labels; results alone show only those that were predicted or explained.
        are_tokens: Whether they are tokens of a vocabulary, by text or id.
    """

    names: Mapping[int, str]
    complete: bool = True
    are_tokens: bool = False

    @classmethod
    def in_order(cls, names: Sequence[str]) -> "ModelLabels":
        """Return all labels of a model, in the order of its outputs."""
        return cls(dict(enumerate(names)))

    def called(self, name: str) -> str | None:
        """Return the label of a name: the same name, or the only one that is the same text; None if there is none."""
        names = list(self.names.values())
        matches = {names[index] for index in matching_names(name, names)}  # several labels of one name are one
        return matches.pop() if len(matches) == 1 else None

    def numbered(self, number: int) -> str | None:
        """Return the label whose name holds a number, such as "3 stars"; None if there is none.

        Each name must hold one number, and no two names the same.
        """
        has_all_labels = len(self._names_by_number) == len(self.names)
        return self._names_by_number.get(number) if has_all_labels else None

    @property
    def are_default_names(self) -> bool:
        """Whether these are the names that transformers gives to labels without names: "LABEL_0", "LABEL_1"."""
        return bool(self.names) and all(name.upper() == f"LABEL_{index}" for index, name in self.names.items())

    @cached_property
    def _names_by_number(self) -> Mapping[int, str]:
        """The names that hold one number, by that number, such as 3 for "3 stars"."""
        names_by_number = {}
        for name in self.names.values():
            numbers = re.findall(r"\d+", name)
            if len(numbers) == 1:
                names_by_number[int(numbers[0])] = name
        return names_by_number

    def __str__(self) -> str:
        """Return the first names on one line, for errors."""
        first = ", ".join(one_line(name) for name in list(self.names.values())[:LISTED])
        return f"{first}, ..." if len(self.names) > LISTED else first
