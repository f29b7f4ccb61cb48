"""Results as matplotlib figures: bars, waterfalls, heat maps, pictures and sounds."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from ..errors import DataError, InputError, check_choice
from ..render.charts import MOST_COLUMNS, Grid, number
from ..render.layout import layout
from ..render.sources import shares_grid, sources_grid
from ..render.text import comparison_grid
from ..results.attribution import Attribution, PlotKind
from ..results.collection import Attributions
from ..results.storage.schema import FloatArray
from ..results.units.characters import one_line, shortened
from ..results.units.grouping import grouped
from .figure import (
    LETTER_WIDTH,
    LINE_HEIGHT,
    PAGE_WIDTH,
    ROW_HEIGHT,
    PlotFigure,
    color_of_sign,
    plot_style,
    without_formulas,
    write_left_out,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SOURCES = 12
"""Most sources in the heat map of an answer."""

MOST_STEPS = 10
"""Most words with a bar of their own in a waterfall."""

MOST_WORDS = 15
"""Most words of several texts."""

NAME_CHARACTERS = 28
"""Most characters of a line of a name."""

WIDE_COLUMN_CHARACTERS = 19
"""Most characters of a line of a name above a wide column."""

TITLE_CHARACTERS_PER_INCH = 14
"""Most characters of an inch of a title."""

MOST_NAME_LINES = 4
"""Most lines of a name."""

NARROW_COLUMN = 0.28
"""The width in inches of a column with a short name, which is turned."""

WIDE_COLUMN = 1.3
"""The width in inches of a column with a long name."""

COLOUR_BAR = 1.0
"""The width in inches of the colour bar."""


def plot_attribution(a: Attribution, kind: PlotKind | None, *, k: int | None) -> "Figure":
    """Draw the scores of a result; arguments and errors as of `Attribution.plot`."""
    _check_arguments(a, kind, k)
    if a.completion is not None:
        return _plot_completion(a, k)
    has_one_row = a.scores.ndim == 1
    # Over the medium itself there is room for one score of each part, and no place for words.
    is_on_media = has_one_row and not a.has_text and kind in (None, "heatmap")
    if is_on_media:
        return a.media[0].figure(a, k)  # all pictures, or the first sound
    grid = layout(a).grid
    if kind == "heatmap" or not has_one_row:
        return heat_map(_with_row_names(grid, a.targets[0].name).best(k))
    return _waterfall(a, grid, k or MOST_STEPS) if kind == "waterfall" else _strongest_bars(grid, k or MOST_COLUMNS)


def _with_row_names(grid: Grid, name: str) -> Grid:
    """Return a grid whose only row, which has no name of its own, has a name, too."""
    return replace(grid, rows=[row_name or name for row_name in grid.rows])


def _strongest_bars(grid: Grid, most: int) -> PlotFigure:
    """Draw the strongest scores of a grid of one row as bars, in the order of the text.

    Args:
        grid: The scores. If all are zero, the first columns are drawn.
        most: How many bars are drawn at most.
    """
    strongest = grid.strongest(0)  # of its only row
    columns = sorted(strongest[:most]) or grid.plain[:most]  # a score of 0 is never among the strongest
    return _bar_chart(grid.take(columns, available=len(strongest)))


def _check_arguments(a: Attribution, kind: PlotKind | None, k: int | None) -> None:
    """Refuse what cannot be drawn of a result."""
    check_choice("kind", kind, get_args(PlotKind))
    if k is not None and k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    if kind in (None, "heatmap"):
        return
    if a.completion is not None:
        raise InputError(f"a completion is drawn as a heat map; kind={kind!r} draws one of its tokens, as a[0]")
    if a.scores.ndim > 1:
        raise DataError(f"kind={kind!r} draws one score for each token; choose with a[target] and a.layer(...)")


def _plot_completion(a: Attribution, k: int | None) -> "Figure":
    """Draw the scores for each part of an answer: on pictures and sounds if there are any, otherwise as a heat map."""
    if a.layers is not None:
        raise DataError("plot() needs one score for each unit; choose with layer(...)")
    is_of_parts = a.targets[0].kind == "part"
    is_by_source = a.prompt_tokens is None  # the units are sources, not the tokens of the prompt
    if is_of_parts and is_by_source:
        return _shares_of_sources(a, k or MOST_SOURCES)
    if a.media:
        return a.media[0].figure(a, k)  # all pictures, or the first sound
    parts = a if is_of_parts else a.group_targets("token")  # a row for each part that the caller named, or each token
    parts_by_unit = parts if is_by_source else grouped(parts, "word")
    label = f"score ({a.quantity}) / largest of the row"
    return heat_map(sources_grid(parts_by_unit, parts_by_unit.scores, label=label, relative=True).best(k))


def _shares_of_sources(a: Attribution, k: int) -> PlotFigure:
    """Draw the shares of the `k` strongest sources of each part of an answer, with a row for each source."""
    shares = shares_grid(a).best(k)  # a row for each part
    label = shares.label
    if shares.more:
        shown = len(shares.columns)
        label += f"; the {shown} strongest of {shown + shares.more}"
    return heat_map(Grid(rows=shares.columns, columns=shares.rows, scores=shares.scores.T, label=label, signed=False))


def plot_attributions(results: Attributions[Any], k: int | None = None, *, min_texts: int = 1) -> PlotFigure:
    """Draw several methods on one text as a heat map, or the words of several texts as bars."""
    if results.comparable:  # several methods on one text
        return heat_map(comparison_grid(results.compared()).best(k))
    words = results.top(MOST_WORDS if k is None else k, min_texts=min_texts)
    if not words:
        raise DataError("no words to show")
    names = [f"{word.text} ({word.texts})" for word in words]  # with the number of texts that hold the word
    scores = np.array([[word.score for word in words]])  # (1, words)
    return _bar_chart(Grid([""], names, scores, label="mean score (number of texts)"))


def _bar_chart(grid: Grid, starts: Sequence[float] = ()) -> PlotFigure:
    """Draw a row of scores as horizontal bars, each with its number.

    Args:
        grid: The scores, in its first row.
        starts: Of a waterfall the start of each bar, where the one before ends; the last, in grey, is the sum of the
            others and starts at 0. Empty for bars that all start at 0.
    """
    if not grid.columns:
        raise DataError("no word or token to draw")
    count = len(grid.columns)
    scores = grid.scores[0]
    with plot_style():
        # The axis below takes 0.9 inches; the line of `write_left_out` stands above the bars.
        figure = PlotFigure(PAGE_WIDTH, 0.9 + ROW_HEIGHT * count + LINE_HEIGHT * bool(grid.more))
        axes = figure.subplots()
        axes.use_sticky_edges = False  # room for the numbers on both sides
        colors = [color_of_sign(score) for score in scores]
        if starts:
            colors[-1] = "0.35"  # the grey of the sum
        bars = axes.barh(range(count), scores, left=starts or 0.0, color=colors, height=0.75)
        axes.bar_label(bars, [grid.number(0, i) for i in range(count)], padding=3, size=8)
        if starts:
            _connect_bars(axes, ends=[*starts[1:-1], scores[-1]])  # the bar before the sum ends where that does
        axes.set_yticks(range(count), [shortened(name, NAME_CHARACTERS) for name in grid.columns])
        axes.set(ylim=(count - 0.4, -0.6), xlabel=one_line(grid.label))  # from high to low: the first bar is on top
        axes.margins(x=0.15)
        axes.axvline(0, color="black", linewidth=0.8)
        write_left_out(axes, count, grid.more)
        return without_formulas(figure)


def _connect_bars(axes: Any, ends: Sequence[float]) -> None:
    """Draw a line from the end of each bar of a waterfall to the next one, which begins there; the sum ends there."""
    for row, end in enumerate(ends):  # from the upper edge of one bar, half of 0.75 high, to the lower of the next
        axes.plot([end, end], [row - 0.375, row + 1.375], color="0.5", linewidth=0.6, zorder=0)


def _waterfall(a: Attribution, grid: Grid, most: int) -> PlotFigure:
    """Draw bars that begin where the one before ends: from the bias over the strongest words to the sum.

    Args:
        a: The result, of one score for each token.
        grid: Its scores with the names of words, in one row.
        most: How many words have a bar at most; the others share one.
    """
    if a.merge != "sum":
        raise DataError(f"a waterfall adds scores up, and those of {a.method} do not add up to anything; draw bars")
    constants = {"bias": a.bias, "attention sink": a.sink}  # None of a method that reports none
    names = [name for name, constant in constants.items() if constant is not None]
    steps = [float(constant) for constant in constants.values() if constant is not None]
    total = float(a.scores.sum()) + sum(steps)
    strongest = grid.strongest(0, most)
    names += [grid.columns[column] for column in strongest]
    steps += grid.scores[0, strongest].tolist()
    if len(strongest) < len(a.units):  # weak words and special tokens, which have no bar of their own
        names.append("all other tokens")
        steps.append(total - sum(steps))
    ends = np.cumsum(steps).tolist()  # of the bars
    starts = [0.0, *ends[:-1], 0.0]  # the sum begins at 0, too
    sum_name = "sum" if a.bias is not None else "sum of scores"  # without the bias it is not the answer
    names.append(f"{sum_name}: {number(total, abs(total))}")
    return _bar_chart(Grid([""], names, np.array([[*steps, total]]), label=grid.label), starts)


class _HeatMapLayout(NamedTuple):
    """The names of a heat map as they are written, and its sizes in inches."""

    rows: list[str]
    columns: list[str]
    is_wide: bool  # whether columns have long names, and room for their numbers
    strip_columns: int  # columns of a strip; the last may have fewer
    width: float
    strip_height: float


def _heat_map_layout(grid: Grid) -> _HeatMapLayout:
    """Wrap the names of a heat map, and find how many columns a page's width has room for."""
    is_wide = max(map(len, grid.columns)) > NAME_CHARACTERS
    rows = [_wrapped(name, NAME_CHARACTERS) for name in grid.rows]
    names_width = LETTER_WIDTH * max(len(line) for name in rows for line in name.split("\n"))
    rows_height = sum(max(ROW_HEIGHT, LINE_HEIGHT * (1.5 + name.count("\n"))) for name in rows)
    if is_wide:
        columns = [_wrapped(name, WIDE_COLUMN_CHARACTERS) for name in grid.columns]
        column_width = WIDE_COLUMN
        labels_height = LINE_HEIGHT * (1 + max(name.count("\n") for name in columns))
    else:  # names are turned: the longest one takes the height
        columns = [shortened(name, NAME_CHARACTERS) for name in grid.columns]
        column_width = NARROW_COLUMN
        labels_height = LETTER_WIDTH * max(map(len, columns))
    columns_on_page = int((PAGE_WIDTH - COLOUR_BAR - names_width) / column_width)
    strip_columns = min(max(1, columns_on_page), len(columns))  # 1 where the names of rows leave no room
    return _HeatMapLayout(
        rows,
        columns,
        is_wide,
        strip_columns,
        width=COLOUR_BAR + names_width + column_width * strip_columns,
        strip_height=0.25 + labels_height + max(rows_height, 0.5),
    )


def heat_map(grid: Grid) -> PlotFigure:
    """Draw a heat map, white at 0; one wider than a page continues in a further strip.

    Columns with short names are narrow; wide ones have room for their numbers.

    Args:
        grid: The scores with the names of their R rows and C columns.

    Raises:
        DataError: If there is no column.
    """
    if not grid.columns:
        raise DataError("no word or token to draw")
    laid_out = _heat_map_layout(grid)
    starts = range(0, len(grid.columns), laid_out.strip_columns)  # the first column of each strip
    table = np.nan_to_num(_shown_scores(grid), posinf=0.0, neginf=0.0)  # (R, C), white where there is no number
    scale = float(np.abs(table).max(initial=0.0)) or 1.0  # of zeros alone any scale: colours need a range
    has_signs = grid.signed or (table < 0).any()
    colors: dict[str, Any] = {"cmap": "RdBu_r" if has_signs else "Reds", "vmin": -scale if has_signs else 0.0}
    with plot_style():
        figure = PlotFigure(max(3.5, laid_out.width), 0.3 + len(starts) * laid_out.strip_height)
        all_axes = figure.subplots(len(starts), squeeze=False)[:, 0]  # an array of a single strip, too
        for start, axes in zip(starts, all_axes, strict=True):
            strip = slice(start, start + laid_out.strip_columns)
            axes.imshow(table[:, strip], aspect="auto", interpolation="nearest", vmax=scale, **colors)
            _write_names(axes, laid_out, laid_out.columns[strip])
            if grid.steps:  # the rows are layers
                axes.invert_yaxis()  # the last one on top, as networks are drawn
            if laid_out.is_wide:
                _write_numbers(axes, grid.scores[:, strip], strengths=table[:, strip] / scale)
        figure.colorbar(all_axes[0].images[0], ax=list(all_axes), aspect=30)  # all strips have the same colours
        title_width = int(TITLE_CHARACTERS_PER_INCH * figure.get_figwidth())  # in characters
        figure.suptitle(_wrapped(grid.label, title_width), x=0.01, ha="left", size=8)
        write_left_out(all_axes[0], len(grid.columns), grid.more)
        return without_formulas(figure)


def _shown_scores(grid: Grid) -> FloatArray:
    """Return the scores that are drawn, (R, C); where rows, or layers, have scales of their own, as shares of them."""
    has_several_scales = grid.relative or grid.steps
    return grid.strengths if has_several_scales else grid.scores


def _write_names(axes: Any, laid_out: _HeatMapLayout, columns: Sequence[str]) -> None:
    """Write the names of the rows and of a strip's columns, without ticks."""
    text_options = {"size": 8} if laid_out.is_wide else {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xlim(-0.5, laid_out.strip_columns - 0.5)  # the last strip's columns are as wide
    axes.set_yticks(range(len(laid_out.rows)), laid_out.rows)
    axes.set_xticks(range(len(columns)), columns, **text_options)
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    if laid_out.is_wide:
        axes.xaxis.tick_top()


def _wrapped(name: str, width: int) -> str:
    """Return a name wrapped to at most `MOST_NAME_LINES` lines of so many characters."""
    return textwrap.fill(one_line(name), width, max_lines=MOST_NAME_LINES, placeholder="…")


def _write_numbers(axes: Any, scores: FloatArray, strengths: FloatArray) -> None:
    """Write each score into its field, in white on dark colours.

    Args:
        axes: The axes of the strip.
        scores: (R, C), the scores of the strip's columns.
        strengths: (R, C), how dark each field is, from -1 to 1.
    """
    scale = float(np.abs(scores).max(initial=0.0))
    signed = bool((scores < 0).any())
    for (row, column), score in np.ndenumerate(scores):
        color = "white" if abs(strengths[row, column]) > 0.6 else "black"  # which can be read on this shade
        text = number(float(score), scale, signed=signed)
        axes.text(column, row, text, color=color, ha="center", va="center", size=8)
