"""Deletion curves: a small drawing for each method, with a table of its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ..blocks import Block, Card, Column, Paragraph, Table, cell

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


@dataclass(frozen=True)
class Curves(Block):
    """Curves on one scale: of probabilities from 0 to 1, else from the least value to the largest."""

    kind: ClassVar = "curves"

    curves: Sequence[Curve]

    @property
    def scale(self) -> tuple[float, float, str, str]:
        """The ends of the scale, and the formats of values and ticks."""
        if all(curve.chance for curve in self.curves):
            return 0.0, 1.0, ".1%", ".0%"
        values = [v for curve in self.curves for line in (curve.highest_first, curve.lowest_first) for v in line]
        low, high = min(values), max(values)
        return low, high if high > low else low + 1.0, ".3g", ".3g"

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Height and name of each tick."""
        low, high, _, form = self.scale
        return [(f"{HEIGHT * (1 - k / 2):.1f}", format(low + (high - low) * k / 2, form)) for k in range(3)]

    def points(self, curve: Curve, values: Sequence[float]) -> str:
        """Return a line as points of an SVG polyline."""
        low, high, *_ = self.scale
        points = zip(curve.shares, values, strict=True)
        return " ".join(f"{WIDTH * x:.1f},{HEIGHT * (high - y) / (high - low):.1f}" for x, y in points)

    def table(self, curve: Curve) -> Table:
        """Return the numbers of a curve."""
        columns = [Column("removed"), Column("highest first", numbers=True), Column("lowest first", numbers=True)]
        return Table(columns, [list(map(cell, row)) for row in self._rows(curve)])

    def summary(self, curve: Curve) -> str:
        """Return a summary of a curve as text."""
        rows = self._rows(curve)
        share, first, last = rows[min(range(len(rows)), key=lambda i: abs(curve.shares[i] - 0.5))]
        return (
            f"{curve.quantity}: {rows[0][1]} for the whole text; with {share} of the {curve.unit} {curve.way}, "
            f"{first} without the highest scored ones and {last} without the lowest scored ones"
        )

    def _rows(self, curve: Curve) -> list[tuple[str, str, str]]:
        form, values = self.scale[2], zip(curve.shares, curve.highest_first, curve.lowest_first, strict=True)
        return [(f"{share:.0%}", format(first, form), format(last, form)) for share, first, last in values]


def curves_card(curves: Sequence[Curve]) -> list[Card]:
    """Return a card of deletion curves; none without curves."""
    if not curves:
        return []
    explanation = (
        f"The {curves[0].quantity} while {curves[0].unit} are {curves[0].way} one after the other. An explanation is "
        "faithful where the solid line falls at once and the dashed one stays: the gap is the area between them, "
        "about 0 for a random order."
    )
    return [Card([Paragraph(explanation), Curves(curves)], "Is it faithful?", result=False)]
