"""`Unexplained`, what stands in the place of a result for an input that could not be explained."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import DataError
from .base import Record
from .storage.schema import Fields
from .storage.tables import Columns

if TYPE_CHECKING:
    from .attribution import Attribution


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Unexplained(Record):
    """An input among several that could not be explained, with `on_error="keep"`.

    Attributes:
        reason: What is wrong with the input.
        text: The text, if it is one.
        text_pair: The second text of a pair.
    """

    kind = "unexplained"
    described = "an input without an explanation"

    reason: str
    text: str | None = None
    text_pair: str | None = None

    @property
    def error(self) -> str:
        """What is wrong with the input."""
        return self.reason

    @property
    def scored(self) -> "Attribution":
        """There is no attribution."""
        raise DataError(f"this input was not explained: {self.reason}; results without an error have scores")

    def validate(self) -> None:
        """Accept every reason."""

    def short_text(self) -> str:
        """Return the reason."""
        return self.reason

    def heading(self) -> str:
        """Return the text, or the pair."""
        return " / ".join(text for text in (self.text, self.text_pair) if text) or "not explained"

    def _columns(self) -> Columns:
        return {"error": [self.reason]}

    def text_row(self) -> Fields:
        """Return the text with the reason."""
        pair = {} if self.text_pair is None else {"text_pair": self.text_pair}
        return {"text": self.text, **pair, "error": self.reason}
