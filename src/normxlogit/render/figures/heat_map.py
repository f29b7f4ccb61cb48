"""Heat maps as matplotlib figures, as wide as a page: what is wider goes on in a further strip."""

import textwrap
from typing import Any

import numpy as np

from ...errors import DataError
from ...results.storage.schema import FloatArray
from ...results.units.characters import one_line
from ..charts import Grid, number
from ..describe import shortened
from .figure import LETTER, LINE, PAGE, ROW, PlotFigure, say_more

LABEL = 28
"""Most characters of a line of a name."""

LINES = 4
"""Most lines of a name."""

NARROW = 0.28
"""Width in inches of a column with a short name, which is turned."""

WIDE = 1.3
"""Width in inches of a column with a long name, which is written in lines above it."""

TITLE = 14
"""Characters of the title that fit in an inch."""

COLUMN_LABEL = 19
"""Characters that fit in a line above a wide column."""

SCALE = 1.0
"""Width in inches of the scale of colours."""


def heat_map(block: Grid) -> PlotFigure:
    """Draw a table in colours, white where a score is 0; with numbers in it where there is room."""
    if not block.columns:
        raise DataError("no word or token to draw")
    wide = max(map(len, block.columns)) > LABEL
    rows = [wrapped(name, LABEL) for name in block.rows]
    columns = [wrapped(name, COLUMN_LABEL) if wide else shortened(name, LABEL) for name in block.columns]
    names_width = LETTER * max(len(line) for name in rows for line in name.split("\n"))
    column_width = WIDE if wide else NARROW
    strip_columns = max(1, int((PAGE - SCALE - names_width) / column_width))
    strips = [slice(i, min(i + strip_columns, len(columns))) for i in range(0, len(columns), strip_columns)]
    heights = [max(ROW, LINE * (1.5 + name.count("\n"))) for name in rows]
    labels = LINE * (1 + max(name.count("\n") for name in columns)) if wide else LETTER * max(map(len, columns))
    width = SCALE + names_width + column_width * min(strip_columns, len(columns))
    figure = PlotFigure(max(3.5, width), 0.3 + len(strips) * (0.25 + labels + max(sum(heights), 0.5)))
    table = np.nan_to_num(block.strengths if block.relative else block.scores, posinf=0.0, neginf=0.0)  # (R, C)
    scale = float(np.abs(table).max(initial=0.0)) or 1.0
    signed = block.signed or bool((table < 0).any())
    colors = {"cmap": "RdBu_r" if signed else "Reds", "vmin": -scale if signed else 0.0, "vmax": scale}
    every = figure.subplots(len(strips), squeeze=False)[:, 0]
    for part, axes in zip(strips, every, strict=True):
        axes.imshow(table[:, part], aspect="auto", interpolation="nearest", **colors)
        axes.set_xlim(-0.5, min(strip_columns, len(columns)) - 0.5)  # the last strip has columns as wide as the others'
        axes.set_yticks(range(len(rows)), rows)
        turned = {"size": 8} if wide else {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(part.stop - part.start), columns[part], **turned)
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
        if block.steps:
            axes.invert_yaxis()  # the last layer on top, as networks are drawn
        if wide:
            axes.xaxis.tick_top()
            _write_numbers(axes, block.scores[:, part], table[:, part] / scale)
    figure.colorbar(every[0].images[0], ax=list(every), aspect=30)
    figure.suptitle(wrapped(block.label, int(TITLE * figure.get_figwidth())), x=0.01, ha="left", size=8)
    say_more(every[0], len(columns), block.more)
    return figure


def wrapped(name: str, width: int) -> str:
    """Return a name in at most `LINES` lines."""
    return textwrap.fill(one_line(name), width, max_lines=LINES, placeholder="…")


def _write_numbers(axes: Any, scores: FloatArray, strengths: FloatArray) -> None:
    """Write each score into its field, in white on dark colours."""
    scale, signed = float(np.abs(scores).max(initial=0.0)), bool((scores < 0).any())
    for (row, column), score in np.ndenumerate(scores):
        color = "white" if abs(strengths[row, column]) > 0.6 else "black"
        axes.text(
            column, row, number(float(score), scale, signed=signed), ha="center", va="center", size=8, color=color
        )
