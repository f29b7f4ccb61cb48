"""The block of a text with arcs between the units of its pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from rich.cells import cell_len
from rich.text import Text

from ..render.blocks import OwnBlock
from ..render.html import element
from ..results.units.characters import one_line, safe, shortened

TEMPLATE = Path(__file__).with_name("arcs.html.j2")

NAME = 24
"""Most characters of a unit's name."""

CHARACTER_WIDTH = 8.2
"""The width of a character, in pixels."""

ARC_STEP = 14.0
"""How much higher each arc is than the one below it, in pixels."""

LINE_HEIGHT = 20.0
"""The height of the line of names, in pixels."""

MARGIN = 14.0
"""The space above the highest arc, in pixels."""

LABEL_GAP = 3
"""The space between an arc and its label, in pixels."""


class Arc(NamedTuple):
    """An arc between two units, the left one first.

    Attributes:
        left: The index of the one.
        right: The index of the other.
        effect: Their joint effect.
        label: What is written on it.
        sentence: What was measured, for a tooltip.
    """

    left: int
    right: int
    effect: float
    label: str
    sentence: str


class Curve(NamedTuple):
    """An arc as SVG."""

    path: str  # the curve, as the attribute `d` of SVG's <path> says it
    x: float  # the middle of its label, in pixels from the left
    y: float  # the line on which its label stands, in pixels from the top
    arc: Arc


@dataclass(frozen=True)
class ArcsBlock(OwnBlock):
    """Units in the order of the text, and arcs above them.

    Attributes:
        units: The names of the units.
        arcs: The arcs, which are drawn above each other.
    """

    units: Sequence[str]
    arcs: Sequence[Arc]

    @property
    def names(self) -> list[str]:
        """The names as they are drawn."""
        return [shortened(one_line(unit), NAME) for unit in self.units]

    def _middles(self) -> list[float]:
        """Return the middle of each name, in characters from the beginning of the line."""
        widths = [cell_len(name) for name in self.names]
        starts = accumulate((width + 1 for width in widths), initial=0)  # of each name with its space, and the end
        # Without the last start, which is the end.
        return [start + (width - 1) / 2 for start, width in zip(starts, widths, strict=False)]

    @property
    def width(self) -> float:
        """The width in pixels, with the space behind each name and a character more."""
        return CHARACTER_WIDTH * (sum(cell_len(name) + 1 for name in self.names) + 1)

    @property
    def height(self) -> float:
        """The height in pixels."""
        return MARGIN + ARC_STEP * (len(self.arcs) + 1) + LINE_HEIGHT

    @property
    def placed_names(self) -> list[tuple[float, str]]:
        """The names, each after its middle in pixels; the line begins a character from the left."""
        middles = [CHARACTER_WIDTH * (middle + 1) for middle in self._middles()]
        return list(zip(middles, self.names, strict=True))

    @property
    def curves(self) -> list[Curve]:
        """The arcs as cubic Bézier curves in SVG, each from above its left unit to above its right one.

        The first arc is lowest. The control points are right above the ends, so that a curve reaches three quarters of
        their height.
        """
        middles = [x for x, _ in self.placed_names]
        bottom = self.height - LINE_HEIGHT
        curves = []
        for rank, arc in enumerate(self.arcs, 1):
            left, right = middles[arc.left], middles[arc.right]
            control_height = ARC_STEP * rank
            top = bottom - control_height
            path = f"M{left:.1f} {bottom:.1f}C{left:.1f} {top:.1f} {right:.1f} {top:.1f} {right:.1f} {bottom:.1f}"
            highest = bottom - 0.75 * control_height
            curves.append(Curve(path, x=(left + right) / 2, y=highest - LABEL_GAP, arc=arc))
        return curves

    def html(self) -> Markup:
        """Return the text with its arcs as SVG."""
        return element(TEMPLATE.read_text(encoding="utf-8"), b=self)

    def lines(self, width: int) -> list[Text]:
        """Return the units in lines of a width, with a line above them for each arc; the first arc is lowest."""
        lines: list[Text] = []
        for row in self._rows(width):
            middles = self._middles_of(row)
            arc_lines = [_arc_line(arc, row, middles) for arc in reversed(self.arcs)]
            lines += [Text(line) for line in arc_lines if line]  # "" for an arc that is not above this line
            lines.append(Text(safe(" ".join(self.names[unit] for unit in row))))
        return lines

    def _rows(self, width: int) -> list[range]:
        """Return the units of each line of a width."""
        rows = []
        first_unit, filled_width = 0, 0
        for unit, name in enumerate(self.names):
            name_width = cell_len(name) + 1  # with a space
            if unit > first_unit and filled_width + name_width > width:  # a line has one unit at least, however long
                rows.append(range(first_unit, unit))
                first_unit, filled_width = unit, 0
            filled_width += name_width
        return [*rows, range(first_unit, len(self.names))]

    def _middles_of(self, row: range) -> dict[int, int]:
        """Return the column of the middle of each unit of a line."""
        middles = self._middles()
        line_start = middles[row.start] - (cell_len(self.names[row.start]) - 1) / 2  # where its first name begins
        return {unit: round(middles[unit] - line_start) for unit in row}


def _arc_line(arc: Arc, row: range, middles: Mapping[int, int]) -> str:
    """Return what of an arc is above a line of units: "╭── +1.2 ──╮"; "" if nothing is.

    An arc from one line to a later one ends at the last unit of the first, and begins at the left of the later one.

    Args:
        arc: The arc.
        row: The units of the line.
        middles: The column of the middle of each.
    """
    if arc.right < row.start or arc.left >= row.stop:
        return ""
    left_column = middles.get(arc.left, 0)
    right_column = middles.get(arc.right, middles[row.stop - 1])
    left_end = "╭" if arc.left in row else "─"
    right_end = "╮" if arc.right in row else "─"
    inner_width = max(0, right_column - left_column - 1)
    label_fits = len(arc.label) + 2 <= inner_width  # with a stroke on each side
    inner = arc.label.center(inner_width, "─") if label_fits else "─" * inner_width
    label_behind = "" if label_fits else f" {arc.label}"
    return " " * left_column + left_end + inner + right_end + label_behind
