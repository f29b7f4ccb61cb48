"""Figures of measurements: several panels with a line or a point for each method, written in all formats."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..plots.figure import PlotFigure, plain_text, plot_style
from ..results.storage.files import replacing

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours of Okabe and Ito (2008), safe for colour-blind readers; after the last, the next of `LINES` is used."""

LINES = ("-", "--", ":", "-.")
MARKERS = "os^vDP*X<>hp"

FORMATS = (".svg", ".pdf", ".png")
"""The file formats of a figure."""


@contextmanager
def panel_figure(panels: int, across: int) -> Iterator[tuple[PlotFigure, list[Any]]]:
    """Make a figure of several panels, and draw inside the block in the style of all plots."""
    columns = min(panels, across)
    rows = -(-panels // columns)
    with plot_style():
        figure = PlotFigure(4.0 * columns + 2.2, 3.3 * rows)
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes in grid[panels:]:
            axes.remove()
        yield figure, grid[:panels]
        plain_text(figure)


def save_figure(figure: PlotFigure, path: Path) -> list[Path]:
    """Write a figure as SVG, PDF and PNG, each atomically."""
    files = [path.with_name(path.name + ending) for ending in FORMATS]
    for file in files:
        with replacing(file) as temporary:
            figure.savefig(temporary)
    return files
