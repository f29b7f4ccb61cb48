"""Results as matplotlib figures: bars, waterfalls, heat maps, pictures and sounds."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from ..errors import DataError, InputError
from ..render.charts import MOST, Grid, number
from ..render.layout import layout
from ..render.sources import shares_grid, sources_grid
from ..render.text import comparison_grid
from ..results.attribution import Attribution, PlotKind
from ..results.collection import Attributions, WordTotal
from ..results.storage.schema import FloatArray
from ..results.units.characters import one_line, shortened
from ..results.units.spans import grouped
from .figure import LETTER, LINE, PAGE, ROW, SIGNS, PlotFigure, plain_text, plot_style, say_more

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARED = 12
"""Most sources in the heat map of an answer."""

LABEL, COLUMN_LABEL, TITLE, LINES = 28, 19, 14, 4
"""Most characters of a line of a name, of one above a wide column, and of an inch of a title; most lines of a name."""

NARROW, WIDE, SCALE = 0.28, 1.3, 1.0
"""Widths in inches of a column with a short name, which is turned, of one with a long name, and of the colour bar."""


def plot_attribution(
    a: Attribution, kind: PlotKind | None = None, *, k: int | None = None, words: bool | None = None
) -> "Figure":
    """Draw the scores of a result."""
    if kind not in (None, *get_args(PlotKind)):
        raise InputError(f'kind must be "bars", "waterfall" or "heatmap", not {kind!r}')
    if k is not None and k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    if a.completion is not None:
        return _plot_completion(a, kind, k)
    single = a.scores.ndim == 1
    if single and not a.has_text and kind in (None, "heatmap"):
        return a.media[0].figure(a, k)
    grid = layout(a, words=words).grid
    if kind == "heatmap" or (kind is None and not single):
        return heat_map(replace(grid, rows=[name or a.targets[0].name for name in grid.rows]).best(k))
    if not single:
        raise DataError(f"{kind} need one score for each token; choose with a[target] and a.layer(...)")
    if kind == "waterfall":
        return _waterfall(a, grid, k or 10)
    columns = sorted(grid.strongest(0, k or MOST)) or grid.plain[: k or MOST]
    return _bar_chart(grid.take(columns, len(grid.strongest(0))))


def _plot_completion(a: Attribution, kind: PlotKind | None, k: int | None) -> "Figure":
    """Draw the scores for each part of an answer: on pictures and sounds if there are any, otherwise as a heat map."""
    if kind not in (None, "heatmap"):
        raise InputError(f"a completion is drawn as a heat map; of one of its tokens, as a[0], there are {kind}")
    if a.layers is not None:
        raise DataError("plot() needs one score for each unit; choose with layer(...)")
    if a.targets[0].kind == "part" and a.prompt_tokens is None:
        grid = shares_grid(a).best(k or SHARED)  # drawn with a row for each source
        omitted = f"; the {len(grid.columns)} strongest of {len(grid.columns) + grid.more}" if grid.more else ""
        return heat_map(Grid(grid.columns, grid.rows, grid.scores.T, label=grid.label + omitted, signed=False))
    if a.media:
        return a.media[0].figure(a, k)
    parts = a if a.targets[0].kind == "part" else a.group_targets("token")
    summed = grouped(parts, "word") if a.prompt_tokens is not None else parts
    label = f"score ({a.quantity}) / largest of the row"
    return heat_map(sources_grid(summed, summed.scores, label=label, relative=True).best(k))


def plot_attributions(results: Attributions[Any], k: int | None = None, *, min_texts: int = 1) -> PlotFigure:
    """Draw several methods on one text as a heat map, or the words of several texts as bars."""
    if results.comparable:
        return heat_map(comparison_grid(results.compared()).best(k))
    return plot_words(results.top(15 if k is None else k, min_texts=min_texts))


def plot_words(words: Sequence[WordTotal]) -> PlotFigure:
    """Draw the mean score of words over several texts as bars."""
    if not words:
        raise DataError("no words to show")
    names, scores = [f"{word.text} ({word.texts})" for word in words], np.array([[word.score for word in words]])
    return _bar_chart(Grid([""], names, scores, label="mean score (number of texts)"))


def _bar_chart(grid: Grid, starts: Sequence[float] = ()) -> PlotFigure:
    """Draw a row of scores as horizontal bars, each with its number.

    With `starts` each begins there, where the one before ends; the last, in grey, is the sum.
    """
    if not grid.columns:
        raise DataError("no word or token to draw")
    count, scores = len(grid.columns), grid.scores[0]
    with plot_style():
        figure = PlotFigure(PAGE, 0.9 + ROW * count + LINE * bool(grid.more))
        axes = figure.subplots()
        axes.use_sticky_edges = False  # room for the numbers on both sides
        colors = [SIGNS[bool(score >= 0)] for score in scores]
        colors[-1] = "0.35" if starts else colors[-1]
        bars = axes.barh(range(count), scores, left=starts or 0.0, color=colors, height=0.75)
        axes.bar_label(bars, [grid.number(0, i) for i in range(count)], padding=3, size=8)
        for step, end in enumerate([*starts[1:-1], scores[-1]] if starts else ()):
            axes.plot([end, end], [step - 0.375, step + 1.375], color="0.5", linewidth=0.6, zorder=0)
        axes.set_yticks(range(count), [shortened(name, LABEL) for name in grid.columns])
        axes.set(ylim=(count - 0.4, -0.6), xlabel=one_line(grid.label))
        axes.margins(x=0.15)
        axes.axvline(0, color="black", linewidth=0.8)
        say_more(axes, count, grid.more)
        return plain_text(figure)


def _waterfall(a: Attribution, grid: Grid, k: int) -> PlotFigure:
    """Draw bars that begin where the one before ends: from the bias over the strongest words to the sum."""
    if a.merge != "sum":
        raise DataError(f"a waterfall adds scores up, and those of {a.method} do not add up to anything; draw bars")
    columns = grid.strongest(0, k)
    constants = (("bias", a.bias), ("attention sink", a.sink))
    steps = [(name, float(value)) for name, value in constants if value is not None]
    total = float(a.scores.sum()) + sum(score for _, score in steps)
    steps += [(grid.columns[i], float(grid.scores[0, i])) for i in columns]
    if len(columns) < len(a.units):
        steps.append(("all other tokens", total - sum(score for _, score in steps)))
    starts = [*np.cumsum([0.0, *(score for _, score in steps[:-1])]).tolist(), 0.0]
    name = "sum" if a.bias is not None else "sum of scores"  # without the bias it is not the answer
    steps.append((f"{name}: {number(total, abs(total))}", total))
    names, scores = [step for step, _ in steps], np.array([[score for _, score in steps]])
    return _bar_chart(Grid([""], names, scores, label=grid.label), starts)


def heat_map(block: Grid) -> PlotFigure:
    """Draw a heat map, white at 0; one wider than a page continues in a further strip.

    Columns with short names are narrow; wide ones have room for their numbers.
    """
    if not block.columns:
        raise DataError("no word or token to draw")
    wide = max(map(len, block.columns)) > LABEL
    rows = [_wrapped(name, LABEL) for name in block.rows]
    columns = [_wrapped(name, COLUMN_LABEL) if wide else shortened(name, LABEL) for name in block.columns]
    names_width = LETTER * max(len(line) for name in rows for line in name.split("\n"))
    column_width = WIDE if wide else NARROW
    strip_columns = max(1, int((PAGE - SCALE - names_width) / column_width))
    strips = [slice(i, min(i + strip_columns, len(columns))) for i in range(0, len(columns), strip_columns)]
    heights = [max(ROW, LINE * (1.5 + name.count("\n"))) for name in rows]
    labels = LINE * (1 + max(name.count("\n") for name in columns)) if wide else LETTER * max(map(len, columns))
    width = SCALE + names_width + column_width * min(strip_columns, len(columns))
    with plot_style():
        figure = PlotFigure(max(3.5, width), 0.3 + len(strips) * (0.25 + labels + max(sum(heights), 0.5)))
        drawn = block.strengths if block.relative or block.steps else block.scores
        table = np.nan_to_num(drawn, posinf=0.0, neginf=0.0)  # (R, C)
        scale = float(np.abs(table).max(initial=0.0)) or 1.0
        signed = block.signed or bool((table < 0).any())
        colors = {"cmap": "RdBu_r" if signed else "Reds", "vmin": -scale if signed else 0.0, "vmax": scale}
        all_axes = figure.subplots(len(strips), squeeze=False)[:, 0]
        for part, axes in zip(strips, all_axes, strict=True):
            axes.imshow(table[:, part], aspect="auto", interpolation="nearest", **colors)
            axes.set_xlim(-0.5, min(strip_columns, len(columns)) - 0.5)  # the last strip's columns are as wide
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
        figure.colorbar(all_axes[0].images[0], ax=list(all_axes), aspect=30)
        figure.suptitle(_wrapped(block.label, int(TITLE * figure.get_figwidth())), x=0.01, ha="left", size=8)
        say_more(all_axes[0], len(columns), block.more)
        return plain_text(figure)


def _wrapped(name: str, width: int) -> str:
    """Return a name wrapped to at most `LINES` lines."""
    return textwrap.fill(one_line(name), width, max_lines=LINES, placeholder="…")


def _write_numbers(axes: Any, scores: FloatArray, strengths: FloatArray) -> None:
    """Write each score into its field, in white on dark colours."""
    scale, signed = float(np.abs(scores).max(initial=0.0)), bool((scores < 0).any())
    for (row, column), score in np.ndenumerate(scores):
        style = {"ha": "center", "va": "center", "size": 8}
        color = "white" if abs(strengths[row, column]) > 0.6 else "black"
        axes.text(column, row, number(float(score), scale, signed=signed), color=color, **style)
