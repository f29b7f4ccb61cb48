"""What the rows of a corpus hold of inputs that are no texts; extensions name their kinds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...extending import registered
from ..units.units import UnitKind

if TYPE_CHECKING:
    from ..units.media import Medium


@dataclass(frozen=True)
class RowKind:
    """The columns of a corpus that say where the units of an input are.

    Attributes:
        unit_kind: The kind of its units.
        columns: The columns with their types.
        cells: Returns the cells of a result by its medium, None without one, and its number of units.
        medium: Returns the medium of cells; None if they hold none.
    """

    unit_kind: UnitKind
    columns: Mapping[str, Any]
    cells: "Callable[[Medium | None, int], dict[str, Any]]"
    medium: "Callable[[Mapping[str, Any]], Medium | None]"


def row_kinds() -> dict[str, RowKind]:
    """Return the kinds of rows of all extensions by their names."""
    return registered("row_kinds")
