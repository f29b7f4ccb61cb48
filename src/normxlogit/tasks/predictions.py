"""Predictions stored as numbers, and described when they are accessed."""

import math
from collections.abc import Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from ..results.attribution import Prediction

Array = npt.NDArray[np.float32]


class Predictions(Sequence[Prediction]):
    """Predictions of a head with few outputs, as numbers: a corpus has a row for every token.

    Args:
        table: What `Task.top` returned, (N, 3), on the host.
        labels: The names of the outputs.
    """

    def __init__(self, table: Array, labels: Sequence[str]) -> None:
        self._table = table
        self._labels = labels

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Prediction]: ...
    def __getitem__(self, index: int | slice) -> Prediction | Sequence[Prediction]:
        """Return one prediction, or several."""
        if isinstance(index, slice):
            return Predictions(self._table[index], self._labels)
        value, number, chance = self._table[index].tolist()
        return Prediction(self._labels[int(number)], int(number), value, None if math.isnan(chance) else chance)

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a sequence of the same predictions."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Predictions({list(self)})"
