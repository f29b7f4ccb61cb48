"""The agreement of methods on one text: a table of rank correlations with the methods' names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Agreement:
    """Spearman's rank correlations between methods.

    `agreement["lime", "occlusion"]` is one of them, `print(agreement)` and `to_pandas()` are the table, and numpy takes
    it as an array.

    Attributes:
        methods: The names of the M methods, with settings where one stands with several.
        correlations: Float64, (M, M); NaN where a method scores all tokens alike, or there are fewer than two.
    """

    methods: Sequence[str]
    correlations: npt.NDArray[np.float64]

    def __getitem__(self, methods: tuple[str, str]) -> float:
        """Return the correlation of two methods, by their names.

        Raises:
            InputError: If a name is not among the methods.
        """
        names = (methods,) if isinstance(methods, str) else tuple(methods)
        unknown = [name for name in names if name not in self.methods]
        if unknown or len(names) != 2:
            raise InputError(f"name two of the methods, as agreement[{self.methods[0]!r}, {self.methods[-1]!r}]")
        first, second = map(self.methods.index, names)
        return float(self.correlations[first, second])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the correlations as an array, (M, M)."""
        return np.array(self.correlations, dtype=dtype)

    def __repr__(self) -> str:
        """Return the table, a line for each method."""
        width = max(map(len, self.methods))
        lines = [" ".join([" " * width, *(name.rjust(5) for name in self.methods)])]
        for name, row in zip(self.methods, self.correlations, strict=True):
            cells = [f"{value:.2f}".rjust(max(5, len(other))) for value, other in zip(row, self.methods, strict=True)]
            lines.append(" ".join([name.ljust(width), *cells]))
        return "\n".join(lines)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the table with the methods as rows and columns.

        Raises:
            DataError: If pandas is missing.
        """
        try:
            import pandas as pd
        except ImportError:
            raise DataError("this needs pandas: pip install pandas") from None
        return pd.DataFrame(self.correlations, index=list(self.methods), columns=list(self.methods))
