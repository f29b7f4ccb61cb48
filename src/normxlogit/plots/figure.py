"""The matplotlib figure of all plots, which leaves the caller's settings and open figures alone."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from ..errors import DataError

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager
except ImportError:
    raise DataError("plots need matplotlib: pip install 'normxlogit[eval]'") from None

POSITIVE, NEGATIVE = "#b2182b", "#2166ac"
"""Colours of positive and negative scores: the ends of the colour map `RdBu`, safe for colour-blind readers."""

PAGE_WIDTH = 6.5
"""The width of a page's text, in inches."""

LINE_HEIGHT = 0.15
"""The height of a line of text, in inches."""

LETTER_WIDTH = 0.075
"""The width of a letter, in inches."""

ROW_HEIGHT = 0.22
"""The height of a bar, or of a row of a heat map with a name of one line, in inches."""

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.dpi": 200,
    "svg.fonttype": "none",  # letters, not their outlines: small files, and the reader's fonts for every script
    "svg.hashsalt": "normxlogit",  # the same file for the same figure
    "pdf.fonttype": 42,  # TrueType: publishers refuse matplotlib's default
}

SCRIPTS = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Zen Hei", "PingFang SC", "Microsoft YaHei"),
    *("Noto Sans JP", "Hiragino Sans", "Yu Gothic", "Noto Sans KR", "Malgun Gothic", "Noto Sans Arabic"),
    *("Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Arial Unicode MS"),
)
"""Fonts for scripts that the default font lacks, if they are installed."""


def color_of_sign(score: float) -> str:
    """Return the colour of a score: `POSITIVE` from 0 on, otherwise `NEGATIVE`.

    Args:
        score: The score.
    """
    return POSITIVE if score >= 0 else NEGATIVE


@contextmanager
def plot_style() -> Iterator[None]:
    """Use the style of all plots inside the block, and restore the caller's settings."""
    installed = {entry.name for entry in fontManager.ttflist}
    # The caller's own first: matplotlib takes each letter from the first family that has it.
    families = [*matplotlib.rcParams["font.family"], *(family for family in SCRIPTS if family in installed)]
    with matplotlib.rc_context({**STYLE, "font.family": families}):
        yield


class PlotFigure(Figure):
    """A matplotlib figure that no global list holds and that notebooks draw without pyplot."""

    def __init__(self, width: float, height: float) -> None:
        """Make an empty figure."""
        super().__init__(figsize=(width, height), layout="constrained")

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write the figure in the format of the file name, without a time stamp."""
        suffix = Path(fname).suffix[1:] if isinstance(fname, (str, Path)) else ""  # an open file has none
        file_format = options.get("format") or suffix
        # None leaves the field out.
        without_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(str(file_format).lower())
        if without_date:
            options.setdefault("metadata", without_date)
        with plot_style(), warnings.catch_warnings():
            if file_format == "svg":  # is drawn with the fonts of its reader, so none needs to be here
                warnings.filterwarnings("ignore", "Glyph .* missing from font")
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:  # which notebooks call to show the figure
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def without_formulas(figure: PlotFigure) -> PlotFigure:
    """Draw dollar signs in the texts of a figure as they are, not as marks of formulas; return the figure."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
    return figure


def write_left_out(axes: Any, shown: int, left_out: int) -> None:
    """Write above the axes that only the strongest items are drawn.

    Args:
        axes: The axes of matplotlib.
        shown: How many are drawn.
        left_out: How many are left out; 0 writes nothing.
    """
    if left_out:
        text = f"the {shown} strongest of {shown + left_out}"
        axes.annotate(text, (1, 1), xycoords="axes fraction", ha="right", va="bottom", size=8)
