"""Coloured text as a matplotlib figure, in lines as wide as a page."""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..results.characters import safe
from .blocks import Piece
from .charts import Legend
from .latex import ColouredText, shade
from .matplotlib_figure import PAGE, PlotFigure

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
        space, x, room = self.width("n", size) * 0.5, MARGIN, PAGE - MARGIN
        for unit in units:
            widths = [self.width(text, size) for text, _ in unit]
            if not unit:  # a line end
                x, self.line = MARGIN, self.line + 1
                continue
            if x > MARGIN and x + sum(widths) > room:
                x, self.line = MARGIN, self.line + 1
            for (text, strength), width in zip(unit, widths, strict=True):
                self.drawn.append((PAGE - x - width if rtl else x, self.line, text, width, strength, size))
                x += width
            x += space
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
        for direction, pieces in row.texts:
            page.write(_units(pieces), rtl=direction == "rtl")
    page.write(_legend(text.legend), SMALL)
    return page.figure()


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
