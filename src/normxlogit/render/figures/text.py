"""Coloured text as a matplotlib figure, in lines as wide as a page."""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

from ...results.units.characters import direction, safe
from ..blocks import Piece
from ..charts import Legend
from ..latex import ColouredText, shade
from .figure import PAGE, PlotFigure

SIZE = 11
"""Size of the letters in points."""

SMALL = 8
"""Size of captions and of the legend."""

HEIGHT = 0.27
"""Height of a line in inches."""

MARGIN = 0.05
"""White at the sides in inches."""

Unit = list[tuple[str, float]]
"""Pieces of text with their strengths that stand on one line, for no white space is between them."""


Placed = tuple[str, float, float]
"""A piece of text with its strength and its width in inches; white space has no text."""


class _Page:
    """A page on which lines are written from the top."""

    def __init__(self, *, greys: bool) -> None:
        from matplotlib.font_manager import FontProperties

        self.greys = greys
        self.drawn: list[tuple[float, int, str, float, float, int]] = []  # x, line, text, width, strength, size
        self.line = 0
        self._fonts = {size: FontProperties(size=size) for size in (SIZE, SMALL)}

    def width(self, text: str, size: int) -> float:
        """Return the width of a text in inches."""
        from matplotlib.textpath import text_to_path

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of letters that no font has; writing the file tells of them
            width, _, _ = text_to_path.get_text_width_height_descent(text, self._fonts[size], ismath=False)
        return float(width) / 72

    def write(self, units: Iterable[Unit], size: int = SIZE, *, rtl: bool = False) -> None:
        """Write units with a space between two, on as many lines as they need."""
        space, room = ("", 0.0, self.width("n", size) * 0.5), PAGE - 2 * MARGIN
        lines: list[list[Placed]] = [[]]
        for unit in units:
            pieces = [(text, strength, self.width(text, size)) for text, strength in unit]
            if not unit or (lines[-1] and sum(width for *_, width in [*lines[-1], space, *pieces]) > room):
                lines.append([])
            lines[-1] += [space] * bool(lines[-1]) + pieces
        for line in lines:
            x = PAGE - MARGIN - sum(width for *_, width in line) if rtl else MARGIN
            for text, strength, width in _visual_order(line, rtl=rtl):
                self.drawn.append((x, self.line, text, width, strength, size))
                x += width
            self.line += 1

    def figure(self) -> PlotFigure:
        """Return the page as a figure."""
        from matplotlib.patches import Rectangle
        from matplotlib.text import Text

        figure = PlotFigure(PAGE, HEIGHT * self.line + 2 * MARGIN)
        top = figure.get_figheight() - MARGIN
        options: dict[str, Any] = {"transform": figure.dpi_scale_trans, "figure": figure}
        for x, line, text, width, strength, size in self.drawn:
            bottom = top - HEIGHT * (line + 1)
            if color := shade(strength, greys=self.greys):
                box = (x, bottom + 0.03), width, HEIGHT - 0.05
                figure.add_artist(Rectangle(*box, facecolor=f"#{color}", linewidth=0, **options))
            if color and self.greys and strength < 0:
                figure.add_artist(
                    Rectangle((x, bottom + 0.05), width, 0.012, facecolor="black", linewidth=0, **options)
                )
            figure.add_artist(Text(x, bottom + 0.09, text, fontsize=size, **options))
        return figure


def text_figure(text: ColouredText, *, greys: bool = False) -> PlotFigure:
    """Draw text in its colours, in lines as wide as a page."""
    page = _Page(greys=greys)
    for row in text.rows:
        if row.caption:
            page.write(_units([Piece(row.caption)]), SMALL)
        for side, pieces in row.texts:
            page.write(_units(pieces), rtl=side == "rtl")
    page.write(_legend(text.legend), SMALL)
    return page.figure()


def _visual_order(line: Sequence[Placed], *, rtl: bool) -> list[Placed]:
    """Return the pieces of a line from left to right: words of the other writing direction in their own order.

    Pieces without a direction, such as numbers, have that of both neighbours, otherwise that of the text (UAX #9, rules
    N1, N2 and L2).
    """
    base = "rtl" if rtl else "ltr"
    directions = [direction(text) for text, *_ in line]

    def last_direction(sides: Sequence[str]) -> list[str]:
        before: Iterator[str] = accumulate(sides, lambda last, side: last if side == "auto" else side, initial=base)
        return [*before][:-1]

    around = zip(directions, last_direction(directions), last_direction(directions[::-1])[::-1], strict=True)
    sides = [side if side != "auto" else before if before == after else base for side, before, after in around]
    runs = [[i for i, _ in run] for _, run in groupby(enumerate(sides), key=lambda pair: pair[1])]
    runs = [run[::-1] if sides[run[0]] == "rtl" else run for run in runs]
    return [line[i] for run in (runs[::-1] if rtl else runs) for i in run]


def _units(pieces: Sequence[Piece]) -> Iterator[Unit]:
    """Cut pieces at white space; an empty unit is a line end."""
    unit: Unit = []
    for piece in pieces:
        for part in re.findall(r"\n|[^\S\n]+|\S+", safe(piece.text)):
            if part.strip():
                unit.append((part, piece.strength))
                continue
            if unit:
                yield unit
            unit = []
            if part == "\n":
                yield []
    if unit:
        yield unit


def _legend(legend: Legend) -> Iterator[Unit]:
    for strength, meaning in ((1.0, legend.positive), (-1.0, legend.negative)):
        if meaning:
            yield [(f" {safe(meaning)} ", strength)]
