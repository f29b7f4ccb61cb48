"""The similarity of two texts: in the terminal, in a notebook and on a page, with the table of pairs of words."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..results.base import FloatArray
from ..results.characters import one_line, safe
from ..results.similarity import Similarity
from .cells import FAINT, Cell
from .html import Figure, HeatMap, environment, figure_of
from .terminal import DIM, lines, shade, wants_color
from .terminal import to_text as attribution_text

__all__ = ["Pair", "fragment", "page", "ranking", "strongest_pairs", "to_text"]

STRONGEST = 8
"""Pairs of words that the terminal lists."""

NAMED = 3
"""Words that a line of a ranking names."""


class Pair(NamedTuple):
    """A word of either text with what both add to the cosine."""

    first: str
    second: str
    score: float


def strongest_pairs(s: Similarity, k: int = STRONGEST) -> list[Pair]:
    """Return the pairs of words that add most to the cosine.

    Args:
        s: A result with a matrix.
        k: How many.
    """
    table = s.word_matrix()  # (W1, W2)
    first, second = s.words_of(0), s.words_of(1)
    order = np.argsort(-table, axis=None, kind="stable")[:k]
    places = [divmod(int(i), len(second)) for i in order]
    return [Pair(first[i].text, second[j].text, float(table[i, j])) for i, j in places]


def to_text(s: Similarity, *, color: bool | None = None) -> str:
    """Draw a result as text: both texts, and the strongest pairs of words where they were asked for.

    Args:
        s: The result.
        color: Whether to colour by ANSI codes; by default as for other results.
    """
    drawn = attribution_text(s, color=color)
    if s.matrix is None or not s.has_words:
        return drawn
    color = wants_color(sys.stdout) if color is None else color
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("right", "left", "right"):
        table.add_column(justify=justify, no_wrap=True)
    pairs = strongest_pairs(s)
    most = max((abs(pair.score) for pair in pairs), default=0.0) or 1.0
    for pair in pairs:
        score = Text(f"{pair.score:+.3f}", (shade(pair.score / most) if color else None) or "")
        table.add_row(Text(one_line(pair.first)), Text(one_line(pair.second)), score)
    return lines([Text(drawn) if not color else Text.from_ansi(drawn), Text(), Text("pairs", DIM), table], color)


def ranking(results: Sequence[Similarity], *, color: bool | None = None) -> str:
    """Draw several results for one text as a list, the most similar first, with the words that each rests on.

    Args:
        results: The results.
        color: Whether to colour by ANSI codes; by default as for other results.
    """
    color = wants_color(sys.stdout) if color is None else color
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    for _ in range(2):
        table.add_column(overflow="fold")
    for s in sorted(results, key=lambda found: -found.cosine):
        words = sorted(s.words_of(1), key=lambda word: -word.score) if s.has_words else []
        named = ", ".join(f"{one_line(word.text)} {word.score:+.2f}" for word in words[:NAMED])
        table.add_row(
            Text(f"{s.cosine:.3f}", "bold" if color else ""), Text(one_line(s.text_pair or "")), Text(named, DIM)
        )
    head = Text(one_line(results[0].text or ""), "bold" if color else "") if results else Text()
    parts: list[RenderableType] = [head, Text(), table]
    return lines(parts, color)


def page(results: Sequence[Similarity], title: str | None = None) -> str:
    """Draw results on a page that needs nothing but a browser.

    Args:
        results: The results, in the order of the page.
        title: Heading of the page.
    """
    figures = [_figure(s) for s in results]
    template = environment().get_template("page.html.j2")
    return template.render(figures=figures, overview=None, curves=[], title=safe(title or "Similarity"))


def fragment(s: Similarity) -> str:
    """Draw a result for a notebook: one element with its own style and no script."""
    return environment().get_template("fragment.html.j2").render(figure=_figure(s), style=True)


def _figure(s: Similarity) -> Figure:
    found = figure_of(s)
    if s.matrix is None or s.own_matrix is None:
        return found
    if s.has_words:
        table, first, second = s.word_matrix(), s.words_of(0), s.words_of(1)
        names = [safe(word.text) for word in first], [safe(word.text) for word in second]
        states = np.array(
            [[_largest(s.own_matrix[list(a.tokens)], s.first_tokens, b.tokens) for b in second] for a in first]
        )  # (W1, W2)
    else:
        table, states = s.matrix[:-1, :-1], s.own_matrix
        names = [safe(t) for t in s.tokens[: s.first_tokens]], [safe(t) for t in s.tokens[s.first_tokens :]]
    maps = [
        _map("What each pair of words adds to the cosine", table, names),
        _map("Beside it the cosine of the words' own states", states.astype(np.float32), names),
    ]
    return found._replace(maps=maps)


def _largest(rows: FloatArray, before: int, tokens: Sequence[int]) -> float:
    return float(rows[:, [token - before for token in tokens]].max())


def _map(caption: str, table: FloatArray, names: tuple[list[str], list[str]]) -> HeatMap:
    most = float(np.abs(table).max(initial=0.0)) or 1.0
    rows = []
    for name, values in zip(names[0], table, strict=True):
        cells = []
        for other, value in zip(names[1], values.tolist(), strict=True):
            strength = abs(value) / most
            kind = "" if strength < FAINT else "for" if value > 0 else "against"
            cells.append(Cell(f"{value:.2f}", kind, strength, f"{name}, {other}  {value:+.3f}"))
        rows.append((name, cells))
    return HeatMap(caption, [Cell(name) for name in names[1]], rows)
