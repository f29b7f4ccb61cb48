"""Which model results belong to: a digest of its weights and of how it reads, and its answer to a fixed input."""

import json
from typing import NamedTuple

from .schema import Number

PROBED = 64
"""Most logits of the answer that are kept."""


class Identity(NamedTuple):
    """What tells a model from others.

    Attributes:
        digest: Of the weights, the labels, the tokenizer and the settings by which inputs are read.
        answer: Logits for a fixed input, at most `PROBED`; none of a model that cannot read it.
        tolerance: Largest difference of these logits that rounding explains.
    """

    digest: str
    answer: tuple[Number, ...]
    tolerance: Number

    def is_same(self, other: "Identity") -> bool:
        """Return whether both are of one model, on whatever device."""
        if self.digest != other.digest or len(self.answer) != len(other.answer):
            return False
        tolerance = max(self.tolerance, other.tolerance)
        return all(a == b or abs(a - b) <= tolerance for a, b in zip(self.answer, other.answer, strict=True))

    @property
    def key(self) -> str:
        """A text for the names of cached results: on another device it may be another one, which computes them anew."""
        step = self.tolerance or 1.0
        return json.dumps([self.digest, [f"{value / step:.0f}" for value in self.answer]])
