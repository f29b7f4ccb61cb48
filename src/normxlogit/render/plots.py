"""Results as matplotlib figures: bars, waterfalls and heat maps."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal

import numpy as np

from ..errors import DataError, InputError
from ..results.attribution import Attribution, Merge
from ..results.base import FloatArray
from ..results.characters import one_line
from ..results.collection import WordTotal
from ..results.signals import AudioAttribution, ImageAttribution
from ..results.similarity import Similarity
from ..results.sources import Sources
from .layout import Facts, Layout, Row, facts, layout, lead, number
from .matplotlib_figure import SIGNS, PlotFigure, plain_text, plot_style

__all__ = ["PlotKind", "plot_attribution", "plot_comparison", "plot_sources", "plot_words"]

PlotKind = Literal["bars", "waterfall", "heatmap"]

WIDTH = 6.5
"""Width in inches: that of a page's text."""

ROW = 0.22
"""Height in inches of a bar or of a heat map's row."""

LABEL = 28
"""Most characters of a label."""

COLUMNS = 40
"""Most columns of a heat map: the strongest ones, in the order of the text."""


def _drawn(draw: Callable[..., PlotFigure]) -> Callable[..., PlotFigure]:
    """Draw in the style of all plots, and take no text for a formula."""

    @wraps(draw)
    def styled(*args: Any, **options: Any) -> PlotFigure:
        with plot_style():
            return plain_text(draw(*args, **options))

    return styled


@_drawn
def plot_attribution(
    a: Attribution,
    kind: PlotKind | None = None,
    *,
    k: int | None = None,
    words: bool | None = None,
    merge: Merge | None = None,
) -> PlotFigure:
    """Draw the scores of one text, picture or sound.

    Args:
        a: The result.
        kind: "bars", one for each word in the order of the text; "waterfall", from the bias over the strongest words to
            their sum; "heatmap", a row for each label and layer. By default bars, and a heat map where there are
            several labels or layers, or patches.
        k: How many words: the strongest, in the order of the text, of a waterfall 10 by default.
        words: Whether to merge tokens to words; by default where the result can tell them.
        merge: How, see `Attribution.words`.

    Raises:
        DataError: If scores do not add up and a waterfall is asked for, words are and the result cannot tell them, or
            bars or a waterfall are and there are several labels or layers: use `select` first.
        InputError: If there is no such kind, or no word to draw.
    """
    if kind not in (None, "bars", "waterfall", "heatmap"):
        raise InputError(f'kind must be "bars", "waterfall" or "heatmap", not {kind!r}')
    if k is not None and k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    if a.scores.ndim == 1 and kind != "waterfall":
        if isinstance(a, ImageAttribution) and a.rows and kind != "bars":
            return _patches(a)
        if isinstance(a, AudioAttribution) and kind is None:
            return _frames(a)
    kind = kind or ("bars" if a.scores.ndim == 1 else "heatmap")
    if isinstance(a, Similarity):
        if kind == "waterfall":
            raise DataError(
                "a waterfall adds scores up, and a cosine's are of two texts that each add up to it; draw bars"
            )
        if a.matrix is not None and kind == "heatmap":
            return _word_pairs(a)
    if kind == "waterfall":
        merge = "sum"  # what a waterfall adds up
    drawn, said = layout(a, words=words, merge=merge), facts(a)
    if kind == "heatmap":
        return _heatmap_of_rows(a, drawn, said, k or COLUMNS)
    if a.scores.ndim != 1:
        raise DataError(f"{kind} need one score for each token; choose with select(label=..., layer=...)")
    return _waterfall(a, drawn, said, k or 10) if kind == "waterfall" else _bars(a, drawn, said, k or COLUMNS)


@_drawn
def plot_comparison(results: Sequence[Attribution], *, k: int | None = None) -> PlotFigure:
    """Draw several methods on one text as a heat map, each row on the scale of its own largest score.

    Args:
        results: One for each method, all of the same tokens.
        k: How many words: those that are strongest by any method, in the order of the text.

    Raises:
        DataError: If there is no result, the texts differ, or a result has several labels or layers: use `select` on
            each first.
    """
    if not results:
        raise DataError("no results to show")
    if any(a.scores.ndim != 1 for a in results):
        raise DataError("a comparison needs one score for each token; choose with select(label=..., layer=...)")
    layouts = [layout(a) for a in results]
    names = [_shown(c.name) for c in layouts[0].columns]
    if any([_shown(c.name) for c in drawn.columns] != names for drawn in layouts):
        raise DataError("methods are compared on the same text, and these results have other ones")
    special = [c.special for c in layouts[0].columns]
    rows = np.stack([_relative(drawn.rows[0].scores, special) for drawn in layouts])  # (M, columns)
    kept = _strongest(rows, special, k or COLUMNS)
    return _heatmap(
        rows[:, kept], [_shown(a.method) for a in results], [names[i] for i in kept], "score / largest of the method"
    )


@_drawn
def plot_sources(s: Sources, *, k: int | None = None) -> PlotFigure:
    """Draw which sources each part of an answer rests on, as a heat map.

    Args:
        s: The result.
        k: How many sources: the strongest for any part, in the order of the prompt.
    """
    kept = _strongest(s.table, [False] * len(s), k or COLUMNS)
    columns = [_shown(s.text[slice(*s.spans[i])] or s.names[i]) for i in kept]
    return _heatmap(s.table[:, kept], [_shown(part.name) for part in s.parts], columns, f"score ({s.unit})")


@_drawn
def plot_words(words: Sequence[WordTotal]) -> PlotFigure:
    """Draw the mean score of words over several texts as bars.

    Args:
        words: What `Attributions.top` returns.

    Raises:
        DataError: If there is none.
    """
    if not words:
        raise DataError("no words to show")
    scores = np.array([word.score for word in words], np.float32)  # (W,)
    names = [f"{_shown(word.text)} ({word.texts})" for word in words]
    return _bar_chart(scores, names, float(np.abs(scores).max()), "mean score (number of texts)", signed=True)


def _bars(a: Attribution, drawn: Layout, said: Facts, k: int) -> PlotFigure:
    row = drawn.rows[0]
    kept = sorted(lead(row, drawn.columns, k)) or [i for i, c in enumerate(drawn.columns) if not c.special][:k]
    if not kept:
        raise DataError("no word or token to draw")
    names = [_shown(drawn.columns[i].name) for i in kept]
    return _bar_chart(row.scores[kept], names, row.scale, _meaning(said), signed=a.signed)


def _bar_chart(scores: FloatArray, names: Sequence[str], scale: float, label: str, *, signed: bool) -> PlotFigure:
    """Draw horizontal bars from top to bottom, each with its number."""
    figure = PlotFigure(WIDTH, 0.9 + ROW * len(names))
    axes = figure.subplots()
    places = range(len(names))
    bars = axes.barh(places, scores, color=[SIGNS[bool(score >= 0)] for score in scores], height=0.75)
    axes.bar_label(bars, [number(float(score), scale, signed=signed) for score in scores], padding=3, size=8)
    axes.set_yticks(places, names)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel=label)
    axes.margins(x=0.15)
    axes.axvline(0, color="black", linewidth=0.8)
    return figure


def _waterfall(a: Attribution, drawn: Layout, said: Facts, k: int) -> PlotFigure:
    if isinstance(a, Similarity):
        raise DataError("a waterfall adds scores up, and each of two texts adds up to the cosine by itself; draw bars")
    if a.merge != "sum":
        raise DataError(f"a waterfall adds scores up, and those of {a.method} do not add up to anything; draw bars")
    row = drawn.rows[0]
    kept = lead(row, drawn.columns, k)
    besides = (("bias", a.bias), ("attention sink", a.sink))
    steps = [(name, float(value)) for name, value in besides if value is not None]
    total = float(a.scores.sum()) + sum(score for _, score in steps)
    steps += [(_shown(drawn.columns[i].name), float(row.scores[i])) for i in kept]
    rest = total - sum(score for _, score in steps)
    if len(kept) < len(a.tokens):
        steps.append(("all other tokens", rest))
    figure = PlotFigure(WIDTH, 0.9 + ROW * (len(steps) + 1))
    axes = figure.subplots()
    axes.use_sticky_edges = False  # room for the numbers on both sides
    sizes = np.array([score for _, score in steps])  # (steps,)
    starts = np.concatenate([[0.0], np.cumsum(sizes)[:-1]])  # (steps,)
    bars = axes.barh(range(len(steps)), sizes, left=starts, color=[SIGNS[bool(v >= 0)] for v in sizes], height=0.75)
    scale = float(np.abs(sizes).max())
    axes.bar_label(bars, [number(float(v), scale) for v in sizes], padding=3, size=8)
    for place, end in enumerate(starts + sizes):
        axes.plot([end, end], [place - 0.375, place + 1.375], color="0.5", linewidth=0.6, zorder=0)
    whole = "sum" if a.bias is not None else "sum of scores"  # which is not the answer
    axes.barh([len(steps)], [total], color="0.35", height=0.75)
    axes.set_yticks(range(len(steps) + 1), [*(name for name, _ in steps), f"{whole}: {number(total, abs(total))}"])
    axes.set(ylim=(len(steps) + 0.6, -0.6), xlabel=_meaning(said))
    axes.margins(x=0.15)
    axes.axvline(0, color="black", linewidth=0.8)
    return figure


def _heatmap_of_rows(a: Attribution, drawn: Layout, said: Facts, k: int) -> PlotFigure:
    special = [column.special for column in drawn.columns]
    by_layer = a.layers is not None
    rows = np.stack([_relative(row.scores, special) if by_layer else row.scores for row in drawn.rows])  # (R, columns)
    kept = _strongest(rows, special, k)
    if not kept:
        raise DataError("no word or token to draw")
    names = [_shown(_row_name(a, row)) for row in drawn.rows]
    label = "score / largest of the layer" if by_layer else _meaning(said)
    figure = _heatmap(rows[:, kept], names, [_shown(drawn.columns[i].name) for i in kept], label, signed=a.signed)
    if by_layer:
        figure.axes[0].invert_yaxis()  # the last layer on top, as networks are drawn
    return figure


def _row_name(a: Attribution, row: Row) -> str:
    names = [] if row.label is None else [a.target.labels[row.label]]
    return ", ".join(names + ([] if row.layer is None else [f"layer {row.layer}"])) or a.target.labels[0]


def _word_pairs(a: Similarity) -> PlotFigure:
    rows, columns = ([_shown(word.text) for word in a.words_of(text)] for text in (0, 1))
    return _heatmap(a.word_matrix(), rows, columns, f"what each two words add to the cosine {a.cosine:.3f}")


def _patches(a: ImageAttribution) -> PlotFigure:
    figure = PlotFigure(4.5, 3.6)
    axes = figure.subplots()
    _coloured(figure, axes, a.grid, _meaning(facts(a)), signed=a.signed)
    axes.set(xticks=[], yticks=[])
    return figure


def _frames(a: AudioAttribution) -> PlotFigure:
    timed = [i for i, (start, end) in enumerate(a.times) if end > start]
    if not timed:
        raise DataError("the frames of this model have no times")
    starts, ends = np.array([a.times[i] for i in timed]).T  # (frames,) each
    figure = PlotFigure(WIDTH, 2.2)
    axes = figure.subplots()
    scores = a.scores[timed]  # (frames,)
    axes.bar(starts, scores, ends - starts, align="edge", color=[SIGNS[bool(score >= 0)] for score in scores])
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(xlabel="seconds", ylabel=_meaning(facts(a)))
    return figure


def _heatmap(
    table: FloatArray, rows: Sequence[str], columns: Sequence[str], label: str, *, signed: bool = True
) -> PlotFigure:
    figure = PlotFigure(max(3.5, min(14.0, 2.6 + 0.3 * len(columns))), 1.6 + ROW * len(rows))
    axes = figure.subplots()
    _coloured(figure, axes, table, label, signed=signed)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
    return figure


def _coloured(figure: PlotFigure, axes: Any, table: FloatArray, label: str, *, signed: bool) -> None:
    """Draw a table in colours, white where a score is 0."""
    table = np.nan_to_num(table, posinf=0.0, neginf=0.0)
    scale = float(np.abs(table).max(initial=0.0)) or 1.0
    signed = signed or bool((table < 0).any())
    colors = {"cmap": "RdBu_r" if signed else "Reds", "vmin": -scale if signed else 0.0, "vmax": scale}
    image = axes.imshow(table, aspect="auto", interpolation="nearest", **colors)
    figure.colorbar(image, ax=axes)
    axes.set_title(label, loc="left", size=8)


def _strongest(rows: FloatArray, special: Sequence[bool], k: int) -> list[int]:
    """Return the columns of the largest magnitude in any row, in their order, without special tokens."""
    sizes = np.where(special, -1.0, np.abs(np.nan_to_num(rows)).max(0))  # (columns,)
    order = np.argsort(-sizes, kind="stable")
    return sorted(int(i) for i in order[:k] if not special[i])


def _relative(row: FloatArray, special: Sequence[bool]) -> FloatArray:
    """Return scores over the largest magnitude outside special tokens."""
    scale = float(np.abs(np.where(special, 0.0, row)).max(initial=0.0))
    return np.asarray(row / scale if scale else row, np.float32)


def _meaning(said: Facts) -> str:
    return one_line(f"score: {said.positive}" + (f" (+), {said.negative} (−)" if said.negative else ""))


def _shown(name: str) -> str:
    name = one_line(name)
    return name if len(name) <= LABEL else f"{name[: LABEL - 1]}…"
