"""The result: how far the answer to a text stays the same in other spellings of it."""

from dataclasses import dataclass
from typing import ClassVar

from normxlogit import Attribution
from normxlogit.results.base import Record


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Stability(Record):
    """The answers to other spellings of a text.

    Attributes:
        attribution: The explanation of the text as it is.
        spellings: What was changed.
        labels: The predicted label of each spelling.
        share: The share of spellings with the same answer.
    """

    kind: ClassVar = "stability"
    described: ClassVar = "a stability"

    attribution: Attribution
    spellings: tuple[str, ...]
    labels: tuple[str, ...]
    share: float

    @property
    def scored(self) -> Attribution:
        """The attribution that the result holds."""
        return self.attribution

    def short_text(self) -> str:
        """Return what `repr` shows."""
        return f"{self.share:.0%} of {len(self.labels)} spellings"

    def validate(self) -> None:
        """Raise ValueError if there is not a label for each spelling."""
        super().validate()
        if len(self.labels) != len(self.spellings):
            raise ValueError("labels: not one for each spelling")
