"""Deletion curves on a page: one small drawing for each method, with a table of its numbers."""

from collections.abc import Sequence
from typing import NamedTuple

from ..results.characters import safe

__all__ = ["Curve", "Drawing", "draw"]

WIDTH, HEIGHT = 300.0, 150.0
"""The area of the lines, in the units of the drawing."""


class Curve(NamedTuple):
    """The values while more and more of a text is taken away.

    Attributes:
        name: The method.
        quantity: What the values are.
        shares: Share that is gone, from 0 to 1.
        highest_first: The values while the highest scored words go first.
        lowest_first: The values while the lowest scored words go first.
        gap: The area between the two.
        unit: What is taken away: "words" or "tokens".
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
    """A curve as the template needs it."""

    name: str
    quantity: str
    summary: str
    gap: str
    unit: str
    way: str
    high: str
    low: str
    ticks: list[tuple[str, str]]
    rows: list[tuple[str, str, str]]


def draw(curves: Sequence[Curve]) -> list[Drawing]:
    """Return the curves as drawings on one scale: of probabilities from 0 to 1, else from the least to the most."""
    values = [v for curve in curves for line in (curve.highest_first, curve.lowest_first) for v in line]
    chances = all(curve.chance for curve in curves)
    low, high = (0.0, 1.0) if chances else (min(values, default=0.0), max(values, default=1.0))
    return [_drawing(curve, low, high if high > low else low + 1.0, chances=chances) for curve in curves]


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
    half = min(range(len(rows)), key=lambda i: abs(curve.shares[i] - 0.5))
    summary = (
        f"{curve.quantity}: {rows[0][1]} for the whole text; with {rows[half][0]} of the {curve.unit} {curve.way}, "
        f"{rows[half][1]} without the highest scored ones and {rows[half][2]} without the lowest scored ones"
    )
    marks = [low + (high - low) * k / 2 for k in range(3)]
    ticks = [
        (f"{HEIGHT * (1 - k / 2):.1f}", f"{mark:.0%}" if chances else f"{mark:.3g}") for k, mark in enumerate(marks)
    ]
    return Drawing(
        safe(curve.name),
        safe(curve.quantity),
        safe(summary),
        f"{curve.gap:+.2f}",
        curve.unit,
        curve.way,
        line(curve.highest_first),
        line(curve.lowest_first),
        ticks,
        rows,
    )
