"""Deletion curves: one small drawing for each method, with a table of its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ..blocks import Block, Column, Table, cell

WIDTH, HEIGHT = 300.0, 150.0
"""The area of the lines, in the units of the drawing."""


class Curve(NamedTuple):
    """The values while more and more of a text is removed.

    Attributes:
        shares: Share that is removed, from 0 to 1.
        highest_first: The values while the highest scored words are removed first.
        lowest_first: The values while the lowest scored words are removed first.
        gap: The area between the two.
        unit: What is removed: "words" or "tokens".
        way: How: "masked" or "deleted".
        chance: Whether the values are probabilities.
    """

    name: str
    quantity: str
    shares: Sequence[float]
    highest_first: Sequence[float]
    lowest_first: Sequence[float]
    gap: float
    unit: str = "words"
    way: str = "masked"
    chance: bool = True


class Drawing(NamedTuple):
    """A curve as a page draws it.

    Attributes:
        high: Points of the solid line.
        low: Points of the dashed line.
        ticks: Height and name of each tick.
    """

    curve: Curve
    summary: str
    high: str
    low: str
    ticks: Sequence[tuple[str, str]]
    table: Table


@dataclass(frozen=True)
class Curves(Block):
    """Curves on one scale: of probabilities from 0 to 1, else from the least value to the largest."""

    kind: ClassVar = "curves"

    curves: Sequence[Curve]

    @property
    def drawings(self) -> list[Drawing]:
        """The curves as a page draws them."""
        values = [v for curve in self.curves for line in (curve.highest_first, curve.lowest_first) for v in line]
        chances = all(curve.chance for curve in self.curves)
        low, high = (0.0, 1.0) if chances else (min(values, default=0.0), max(values, default=1.0))
        return [_drawing(curve, low, high if high > low else low + 1.0, chances=chances) for curve in self.curves]


def _drawing(curve: Curve, low: float, high: float, *, chances: bool) -> Drawing:
    def line(values: Sequence[float]) -> str:
        points = zip(curve.shares, values, strict=True)
        return " ".join(f"{WIDTH * x:.1f},{HEIGHT * (high - y) / (high - low):.1f}" for x, y in points)

    def shown(value: float) -> str:
        return f"{value:.1%}" if chances else f"{value:.3g}"

    rows = [
        (f"{share:.0%}", shown(first), shown(last))
        for share, first, last in zip(curve.shares, curve.highest_first, curve.lowest_first, strict=True)
    ]
    middle = min(range(len(rows)), key=lambda i: abs(curve.shares[i] - 0.5))
    summary = (
        f"{curve.quantity}: {rows[0][1]} for the whole text; with {rows[middle][0]} of the {curve.unit} {curve.way}, "
        f"{rows[middle][1]} without the highest scored ones and {rows[middle][2]} without the lowest scored ones"
    )
    marks = [low + (high - low) * k / 2 for k in range(3)]
    ticks = [
        (f"{HEIGHT * (1 - k / 2):.1f}", f"{mark:.0%}" if chances else f"{mark:.3g}") for k, mark in enumerate(marks)
    ]
    columns = [Column("removed"), Column("highest first", numbers=True), Column("lowest first", numbers=True)]
    table = Table(columns, [list(map(cell, row)) for row in rows])
    return Drawing(curve, summary, line(curve.highest_first), line(curve.lowest_first), ticks, table)
