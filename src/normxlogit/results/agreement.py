"""The agreement of methods on one text: a table of rank correlations with the methods' names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .storage.schema import Float64Array


@dataclass(frozen=True, eq=False)
class Agreement:
    """Spearman's rank correlations between methods.

    `agreement["lime", "occlusion"]` is one of them, `print(agreement)` shows the table, and numpy takes it as an array.

    Attributes:
        methods: The names of the M methods, with settings where one stands with several.
        correlations: Float64, (M, M); NaN where a method scores all tokens alike, or there are fewer than two.
    """

    methods: Sequence[str]
    correlations: Float64Array

    def __getitem__(self, methods: tuple[str, str]) -> float:
        """Return the correlation of two methods, by their names.

        Raises:
            InputError: If a name is not among the methods.
        """
        is_pair = isinstance(methods, tuple | list) and len(methods) == 2
        if not is_pair or any(name not in self.methods for name in methods):
            raise InputError(f"name two of the methods, as agreement[{self.methods[0]!r}, {self.methods[-1]!r}]")
        first, second = map(self.methods.index, methods)
        return float(self.correlations[first, second])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the correlations as an array, (M, M)."""
        return np.array(self.correlations, dtype=dtype)

    def __repr__(self) -> str:
        """Return the table, a line for each method."""
        first_width = max(map(len, self.methods))
        rows = [["", *self.methods]]
        for name, correlations in zip(self.methods, self.correlations, strict=True):
            rows.append([name, *(f"{correlation:.2f}" for correlation in correlations)])
        widths = [max(5, len(name)) for name in self.methods]  # 5 for "-1.00"
        lines = [[row[0].ljust(first_width), *map(str.rjust, row[1:], widths)] for row in rows]
        return "\n".join(map(" ".join, lines))
