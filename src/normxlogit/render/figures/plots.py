"""Results as matplotlib figures: bars, waterfalls, heat maps, pictures and sounds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from ...errors import DataError, InputError
from ...results.attribution import Attribution
from ...results.collection import WordTotal
from ...results.units.characters import one_line
from ..builders.similarity import pairs_grid
from ..builders.sources import scores_grid, shares_grid
from ..charts import MOST, Grid, number
from ..describe import shortened
from ..layout import layout
from .figure import LINE, PAGE, ROW, SIGNS, PlotFigure, plain_text, plot_style, say_more
from .heat_map import LABEL, heat_map
from .media import media_figure

SHARED = 12
"""Most sources beside the sentences of an answer."""

PlotKind = Literal["bars", "waterfall", "heatmap"]


class Bar(NamedTuple):
    """A named bar.

    Attributes:
        start: Where it begins.
        color: Its colour, where that does not tell the sign.
    """

    name: str
    score: float
    start: float = 0.0
    color: str = ""


def plot_attribution(
    a: Attribution,
    kind: PlotKind | None = None,
    *,
    k: int | None = None,
    words: bool | None = None,
) -> PlotFigure:
    """Draw the scores of a result."""
    if kind not in (None, *get_args(PlotKind)):
        raise InputError(f'kind must be "bars", "waterfall" or "heatmap", not {kind!r}')
    if k is not None and k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    if a.completion is not None:
        return _plot_completion(a, kind, k)
    return _plot_input(a, kind, k, words)


def _plot_input(a: Attribution, kind: PlotKind | None, k: int | None, words: bool | None) -> PlotFigure:
    """Draw the scores of one text, picture or sound."""
    single = a.scores.ndim == 1
    if single and not a.has_text and kind in (None, "heatmap"):
        return media_figure(a, k=k)
    grid = layout(a, words=words).grid
    if a.pairs is not None and kind == "heatmap":
        return figure_of(pairs_grid(a))
    if kind == "heatmap" or (kind is None and not single):
        return figure_of(replace(grid, rows=[name or a.targets[0].name for name in grid.rows]).best(k))
    if not single:
        raise DataError(f"{kind} need one score for each token; choose with a[target] and a.layer(...)")
    if kind == "waterfall":
        return _bar_chart(_waterfall(a, grid, k or 10), grid.label, stepped=True)
    columns = sorted(grid.strongest(0, k or MOST)) or grid.plain[: k or MOST]
    bars = [Bar(grid.columns[i], float(grid.scores[0, i])) for i in columns]
    more = len(grid.strongest(0)) - len(bars)
    return _bar_chart(bars, grid.label, scale=grid.scales[0], signed=a.signed, more=more)


def _plot_completion(a: Attribution, kind: PlotKind | None, k: int | None) -> PlotFigure:
    """Draw what each part of an answer rests on: of pictures and sounds these, of others a heat map."""
    if kind not in (None, "heatmap"):
        raise InputError(f"a completion is drawn as a heat map; of one of its tokens, as a[0], there are {kind}")
    if a.layers is not None:
        raise DataError("plot() needs one score for each unit; choose with layer(...)")
    if a.targets[0].kind == "part" and a.prompt_tokens is None:
        return figure_of(shares_grid(a).best(k or SHARED).transposed())
    if a.media:
        return media_figure(a, k=k)
    parts = a if a.targets[0].kind == "part" else a.group_targets("token")
    summed = parts.group("word", merge="sum") if a.prompt_tokens is not None else parts
    return figure_of(scores_grid(summed).best(k))


def plot_words(words: Sequence[WordTotal]) -> PlotFigure:
    """Draw the mean score of words over several texts as bars."""
    if not words:
        raise DataError("no words to show")
    bars = [Bar(f"{word.text} ({word.texts})", word.score) for word in words]
    return _bar_chart(bars, "mean score (number of texts)")


def figure_of(block: Grid) -> PlotFigure:
    """Draw a heat map in the style of all plots, and take no text for a formula."""
    with plot_style():
        return plain_text(heat_map(block))


def _bar_chart(
    rows: Sequence[Bar],
    label: str,
    *,
    scale: float | None = None,
    signed: bool = True,
    more: int = 0,
    stepped: bool = False,
) -> PlotFigure:
    """Draw horizontal bars from top to bottom, each with its number.

    Args:
        rows: The bars.
        label: What their lengths mean.
        scale: The score by which numbers are rounded; by default the largest.
        signed: Whether numbers carry a sign.
        more: How many others are not shown.
        stepped: Whether each begins where the one before ends.
    """
    if not rows:
        raise DataError("no word or token to draw")
    with plot_style():
        figure = PlotFigure(PAGE, 0.9 + ROW * len(rows) + LINE * bool(more))
        axes = figure.subplots()
        axes.use_sticky_edges = False  # room for the numbers on both sides
        places = range(len(rows))
        sizes = np.array([row.score for row in rows])  # (bars,)
        starts = np.array([row.start for row in rows])  # (bars,)
        colors = [row.color or SIGNS[bool(row.score >= 0)] for row in rows]
        bars = axes.barh(places, sizes, left=starts, color=colors, height=0.75)
        largest = float(np.abs(sizes).max()) if scale is None else scale
        numbers = [number(float(score), largest, signed=signed) for score in sizes]
        axes.bar_label(bars, numbers, padding=3, size=8)
        for step, end in enumerate((starts + sizes)[:-1] if stepped else ()):
            axes.plot([end, end], [step - 0.375, step + 1.375], color="0.5", linewidth=0.6, zorder=0)
        axes.set_yticks(places, [shortened(row.name, LABEL) for row in rows])
        axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel=one_line(label))
        axes.margins(x=0.15)
        axes.axvline(0, color="black", linewidth=0.8)
        say_more(axes, len(rows), more)
        return plain_text(figure)


def _waterfall(a: Attribution, grid: Grid, k: int) -> list[Bar]:
    """Return bars that begin where the one before ends: from the bias over the strongest words to the sum."""
    if a.quantity == "cosine":
        raise DataError("a waterfall adds scores up, and a cosine's are of two texts that each add up to it; draw bars")
    if a.merge != "sum":
        raise DataError(f"a waterfall adds scores up, and those of {a.method} do not add up to anything; draw bars")
    columns = grid.strongest(0, k)
    besides = (("bias", a.bias), ("attention sink", a.sink))
    steps = [(name, float(value)) for name, value in besides if value is not None]
    total = float(a.scores.sum()) + sum(score for _, score in steps)
    steps += [(grid.columns[i], float(grid.scores[0, i])) for i in columns]
    if len(columns) < len(a.units):
        steps.append(("all other tokens", total - sum(score for _, score in steps)))
    starts = np.cumsum([0.0, *(score for _, score in steps)])  # (steps + 1,)
    rows = [Bar(name, score, float(start)) for (name, score), start in zip(steps, starts, strict=False)]
    total_name = "sum" if a.bias is not None else "sum of scores"  # which is not the answer
    return [*rows, Bar(f"{total_name}: {number(total, abs(total))}", total, color="0.35")]
