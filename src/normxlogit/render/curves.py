"""Deletion curves: a small drawing for each method, with a table of its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..results.deletion_curve import DeletionCurve
from .blocks import Block, Card, Column, Paragraph, Table, cell

WIDTH, HEIGHT = 300.0, 150.0
"""The area of the lines, in the units of the drawing."""


@dataclass(frozen=True)
class Curves(Block):
    """Curves on one scale: of probabilities from 0 to 1, else from the least value to the largest."""

    kind: ClassVar = "curves"

    curves: Sequence[DeletionCurve]

    @property
    def scale(self) -> tuple[float, float, str, str]:
        """The ends of the scale, and the formats of values and ticks."""
        if all(curve.quantity == "probability" for curve in self.curves):
            return 0.0, 1.0, ".1%", ".0%"
        values = [v for curve in self.curves for line in (curve.highest_first, curve.lowest_first) for v in line]
        low, high = min(values), max(values)
        return low, high if high > low else low + 1.0, ".3g", ".3g"

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Height and name of each tick."""
        low, high, _, form = self.scale
        return [(f"{HEIGHT * (1 - k / 2):.1f}", format(low + (high - low) * k / 2, form)) for k in range(3)]

    def points(self, curve: DeletionCurve, values: Sequence[float]) -> str:
        """Return a line as points of an SVG polyline."""
        low, high, *_ = self.scale
        points = zip(curve.shares, values, strict=True)
        return " ".join(f"{WIDTH * x:.1f},{HEIGHT * (high - y) / (high - low):.1f}" for x, y in points)

    def table(self, curve: DeletionCurve) -> Table:
        """Return the numbers of a curve."""
        columns = [Column("removed"), Column("highest first", numbers=True), Column("lowest first", numbers=True)]
        return Table(columns, [list(map(cell, row)) for row in self._rows(curve)])

    def summary(self, curve: DeletionCurve) -> str:
        """Return a summary of a curve as text."""
        rows = self._rows(curve)
        share, first, last = rows[min(range(len(rows)), key=lambda i: abs(curve.shares[i] - 0.5))]
        return (
            f"{curve.measured}: {rows[0][1]} for the whole text; with {share} of the {curve.unit} {way(curve)}, "
            f"{first} without the highest scored ones and {last} without the lowest scored ones"
        )

    def _rows(self, curve: DeletionCurve) -> list[tuple[str, str, str]]:
        form, values = self.scale[2], zip(curve.shares, curve.highest_first, curve.lowest_first, strict=True)
        return [(f"{share:.0%}", format(first, form), format(last, form)) for share, first, last in values]


def way(curve: DeletionCurve) -> str:
    """Return how words are taken out of the text."""
    return "masked" if curve.masked else "deleted"


def curves_card(curves: Sequence[DeletionCurve]) -> list[Card]:
    """Return a card of deletion curves; none without curves."""
    if not curves:
        return []
    explanation = (
        f"The {curves[0].measured} while {curves[0].unit} are {way(curves[0])} one after the other. An explanation is "
        "faithful where the solid line falls at once and the dashed one stays: the gap is the area between them, "
        "about 0 for a random order."
    )
    return [Card([Paragraph(explanation), Curves(curves)], "Is it faithful?", result=False)]
