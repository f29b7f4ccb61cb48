"""What a model answers without parts of its input: the test of an explanation."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from .base import require
from .storage.schema import Index, Number
from .targets import Prediction

Quantity = Literal["probability", "value", "cosine", "log-probability"]
"""What is measured: the probability of the explained answer, the value of a regression, a cosine, or nats."""

Unit = Literal["word", "token", "source", "region", "moment"]
"""What is removed at a time."""

RemovedBy = Literal["deleted", "masked", "replaced", "silenced"]
"""What happens to it."""


class Removal(NamedTuple):
    """The model's answer without some units of its input.

    Attributes:
        units: The text of each unit that was removed; none for the whole input.
        tokens: Indices of their tokens.
        prediction: What the model predicts without them; None where it predicts nothing, as of a cosine.
        value: The measured quantity without them, see `Verification.quantity`.
        changed: Whether the prediction is another than for the whole input.
    """

    units: tuple[str, ...]
    tokens: tuple[Index, ...]
    prediction: Prediction | None
    value: Number
    changed: bool


@dataclass(frozen=True)
class Verification:
    """The answers of the model without the units of the highest scores: one at a time, and together.

    Attributes:
        target: What is explained, and whose probability (or value) is measured.
        quantity: What `value` is of each removal.
        unit: What is removed at a time.
        removed_by: What happens to them: words are "deleted", or "masked" where a mask token takes their place; regions
            of a picture are "replaced" by the mean of what surrounds them, moments of a sound "silenced".
        original: The answer to the whole input.
        single: The answer without each of the n units, in the order of their scores.
        together: The answer without all n of them.
        smallest: The smallest set that was found whose removal changes the prediction, and none of whose units can be
            put back without restoring it; None where no set was found, and for predictions that are values.
        control: The answer without as many other units as `smallest` has (or `together`, without one), drawn at
            random; None where there are no others.
    """

    target: str
    quantity: Quantity
    unit: Unit
    removed_by: RemovedBy
    original: Removal
    single: tuple[Removal, ...]
    together: Removal
    smallest: Removal | None = None
    control: Removal | None = None

    def without(self, token: int) -> Removal | None:
        """Return the answer without the unit that holds a token; None where it was not removed by itself."""
        return next((removal for removal in self.single if token in removal.tokens), None)

    def text_row(self) -> dict[str, Any]:
        """Return what a table of texts has of it: what was removed, the answer without it, and without others."""
        removal = self.smallest or self.together
        answers = {"without": removal, "without_others": self.control}
        row: dict[str, Any] = {"removed": ", ".join(removal.units), "changed": removal.changed}
        for name, removed in answers.items():
            label = None if removed is None or removed.prediction is None else removed.prediction.label
            row |= {f"prediction_{name}": label, f"value_{name}": None if removed is None else removed.value}
        return row

    def validate(self, tokens: int) -> None:
        """Raise ValueError if a removal does not fit an input of some tokens."""
        optional = [removal for removal in (self.smallest, self.control) if removal is not None]
        for removal in (self.original, *self.single, self.together, *optional):
            require(all(token < tokens for token in removal.tokens), "verified: a token that is not there")
            require(bool(removal.units) == bool(removal.tokens), "verified: units without tokens")
