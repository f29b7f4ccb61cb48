"""The columns of corpora of pictures and sounds: the grid of patches, and the times of moments."""

from collections.abc import Mapping
from typing import Any

from ..long_runs.columns import RowKind
from ..results.storage.schema import Index, Number
from ..results.units.media import Medium
from .units import grid_medium, sound_of_times


def _grid_cells(medium: Medium | None, units: int) -> dict[str, Any]:
    """Return the size of a grid of patches and its first unit; zeros without one."""
    rows, columns = (0, 0) if medium is None else medium.shape
    return {"rows": rows, "columns": columns, "first": 0 if medium is None else medium.first}


def _grid(row: Mapping[str, Any]) -> Medium | None:
    """Return the picture of a row."""
    return grid_medium(row["rows"], row["columns"], row["first"]) if row["rows"] else None


def _times(medium: Medium | None, units: int) -> dict[str, Any]:
    """Return beginning and end of every unit in seconds, (0, 0) of those before the first moment and after the last."""
    if medium is None:
        return {"times": []}
    after = units - medium.units.stop
    return {"times": [(0.0, 0.0)] * medium.first + medium.places.tolist() + [(0.0, 0.0)] * after}


IMAGE = RowKind("patch", {"rows": Index, "columns": Index, "first": Index}, _grid_cells, _grid)
"""Rows of pictures."""

AUDIO = RowKind(
    "moment", {"times": tuple[tuple[Number, Number], ...]}, _times, lambda row: sound_of_times(row["times"])
)
"""Rows of sounds."""
