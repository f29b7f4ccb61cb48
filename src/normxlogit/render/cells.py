"""A piece in the shade of its score, the unit of every drawing on a page."""

from typing import NamedTuple

__all__ = ["COLORS", "FAINT", "KEYS", "Cell"]

FAINT = 0.03
"""Strength below which a piece is drawn like any other text."""

COLORS = {"for": "220,38,38", "against": "37,99,235"}
DENSEST = 0.55
"""Opacity of the strongest colour; letters keep a contrast of 4.5 on light and dark pages."""


class Cell(NamedTuple):
    """Something to draw in the shade of a score: a piece of text or a field of the heat map.

    Attributes:
        text: What stands in it.
        kind: "for", "against", "special", "rest" (text that has no score) or "".
        strength: From 0 to 1.
        title: What is said when the reader points at it.
        column: The column of its score, where that can change.
    """

    text: str
    kind: str = ""
    strength: float = 0.0
    title: str = ""
    column: int | None = None

    @property
    def style(self) -> str:
        """The colour, in the notation that notebooks let through: red or blue, with the strength as opacity."""
        shade = ""
        if self.kind in COLORS:
            shade = f";background-color:rgba({COLORS[self.kind]},{DENSEST * self.strength:.3f})"
        return f"--s:{self.strength:.3f}{shade}"


KEYS = (Cell("red", "for", 1.0), Cell("blue", "against", 1.0))
"""The colours of the legend."""
