"""Results as matplotlib figures: bars, waterfalls, heat maps, pictures and sounds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

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
        return _waterfall(a, grid, k or 10)
    columns = sorted(grid.strongest(0, k or MOST)) or grid.plain[: k or MOST]
    return _bar_chart(grid.take(columns, len(grid.strongest(0))))


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
    names, scores = [f"{word.text} ({word.texts})" for word in words], np.array([[word.score for word in words]])
    return _bar_chart(Grid([""], names, scores, label="mean score (number of texts)"))


def figure_of(block: Grid) -> PlotFigure:
    """Draw a heat map in the style of all plots, and take no text for a formula."""
    with plot_style():
        return plain_text(heat_map(block))


def _bar_chart(grid: Grid, starts: Sequence[float] = ()) -> PlotFigure:
    """Draw a row of scores as horizontal bars from top to bottom, each with its number.

    Args:
        grid: The row.
        starts: Where each begins, which is where the one before ends; the last, in grey, is the sum. By default all
            begin at 0.
    """
    if not grid.columns:
        raise DataError("no word or token to draw")
    count, scores = len(grid.columns), grid.scores[0]
    with plot_style():
        figure = PlotFigure(PAGE, 0.9 + ROW * count + LINE * bool(grid.more))
        axes = figure.subplots()
        axes.use_sticky_edges = False  # room for the numbers on both sides
        colors = [SIGNS[bool(score >= 0)] for score in scores]
        colors[-1] = "0.35" if len(starts) else colors[-1]
        bars = axes.barh(range(count), scores, left=starts if len(starts) else 0.0, color=colors, height=0.75)
        axes.bar_label(bars, [grid.number(0, i) for i in range(count)], padding=3, size=8)
        for step, end in enumerate([*starts[1:-1], scores[-1]] if len(starts) else ()):
            axes.plot([end, end], [step - 0.375, step + 1.375], color="0.5", linewidth=0.6, zorder=0)
        axes.set_yticks(range(count), [shortened(name, LABEL) for name in grid.columns])
        axes.set(ylim=(count - 0.4, -0.6), xlabel=one_line(grid.label))
        axes.margins(x=0.15)
        axes.axvline(0, color="black", linewidth=0.8)
        say_more(axes, count, grid.more)
        return plain_text(figure)


def _waterfall(a: Attribution, grid: Grid, k: int) -> PlotFigure:
    """Draw bars that begin where the one before ends: from the bias over the strongest words to the sum."""
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
    starts = [*np.cumsum([0.0, *(score for _, score in steps[:-1])]).tolist(), 0.0]
    name = "sum" if a.bias is not None else "sum of scores"  # which is not the answer
    steps.append((f"{name}: {number(total, abs(total))}", total))
    names, scores = [step for step, _ in steps], np.array([[score for _, score in steps]])
    return _bar_chart(Grid([""], names, scores, label=grid.label), starts)
