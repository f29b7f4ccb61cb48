"""The curve of a model's output as the words of a text are deleted."""

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class DeletionCurve:
    """A model's outputs for the target as more and more of a text is deleted.

    Attributes:
        quantity: The kind of values: the target's probability, or the value of a regression model.
        units: The deleted units, the highest scored first.
        unit: What they are: words, or tokens if words are not known.
        shares: The deleted share of them, from 0 to 1, (P,).
        highest_first: The values when the highest scored ones are deleted first, (P,).
        lowest_first: The values when the lowest scored ones are deleted first, (P,).
        masked: Whether they are replaced by the mask token instead of deleted.
    """

    method: str
    target: str
    quantity: Literal["probability", "value"]
    units: tuple[str, ...]
    unit: Literal["words", "tokens"]
    shares: tuple[float, ...]
    highest_first: tuple[float, ...]
    lowest_first: tuple[float, ...]
    masked: bool

    @property
    def measured(self) -> str:
        """What is measured, in words."""
        return f"probability of {self.target}" if self.quantity == "probability" else self.target

    @property
    def gap(self) -> float:
        """The area between the two curves: 0 for a random order, larger for a more faithful one, at most 1."""
        difference = np.subtract(self.lowest_first, self.highest_first)
        widths = np.diff(self.shares)
        return float((widths * (difference[1:] + difference[:-1]) / 2).sum())
