"""The identity of a model: a digest of weights and input settings, and the logits of a fixed input."""

import json
from typing import NamedTuple

from ..results.storage.schema import Number

PROBED = 64
"""How many logits of the fixed input are kept at most."""


class Identity(NamedTuple):
    """The identity of a model, by which results are matched to it.

    Attributes:
        digest: A digest of the weights, the labels, the tokenizer and the settings of inputs.
        answer: Logits for a fixed input, at most `PROBED`; none of a model that cannot read it.
        tolerance: The largest difference of these logits that rounding explains.
    """

    digest: str
    answer: tuple[Number, ...]
    tolerance: Number

    def is_same(self, other: "Identity") -> bool:
        """Return whether both identify the same model, on any device."""
        if self.digest != other.digest or len(self.answer) != len(other.answer):
            return False
        tolerance = max(self.tolerance, other.tolerance)
        return all(abs(a - b) <= tolerance for a, b in zip(self.answer, other.answer, strict=True))

    @property
    def key(self) -> str:
        """A key for the names of cached results: the digest, and the logits as multiples of their tolerance.

        It may differ by device, and then results are computed anew.
        """
        step = self.tolerance or 1.0  # the tolerance is 0 where there are no logits
        return json.dumps([self.digest, [f"{value / step:.0f}" for value in self.answer]])
