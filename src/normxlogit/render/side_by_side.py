"""Several methods on one text in the terminal: a coloured line for each, and one table of the strongest words."""

import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.console import RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ..errors import DataError
from ..results.attribution import Attribution, Merge
from ..results.characters import safe
from .layout import Facts, Layout, facts, layout, number
from .terminal import BOLD, DIM, INK, STRONGEST, color_of, legend, lines, sentence, wants_color

__all__ = ["methods_to_text"]

BAR = 8
"""Longest bar."""

BARS = 3
"""Methods up to which a table has bars; more would not fit into 80 columns."""

Agreement = npt.NDArray[np.float64]


def methods_to_text(
    results: Sequence[Attribution],
    agreement: Agreement,
    *,
    words: bool | None = None,
    merge: Merge | None = None,
    color: bool | None = None,
    costs: Sequence[str] = (),
) -> str:
    """Draw several methods' results of one text and target.

    Args:
        results: The results, one score for each token.
        agreement: Rank agreement between each two of them, (M, M).
        words: Whether to merge tokens to words; by default where the results can tell them.
        merge: How, see `Attribution.words`.
        color: Whether to colour by ANSI codes, see `terminal.to_text`.
        costs: What each method costs, in words, where that is known.

    Returns:
        Several lines without a line end after the last.

    Raises:
        DataError: If a result has several labels or layers, or the texts differ.
    """
    color = wants_color(sys.stdout) if color is None else color
    drawn, said = [layout(a, words=words, merge=merge) for a in results], [facts(a) for a in results]
    if any(len(one.rows) != 1 or not one.same_pieces(drawn[0]) for one in drawn):
        raise DataError("methods side by side need one score for each token of the same text")
    titles = [a.method for a in results]
    if len(set(titles)) < len(titles):  # the same method with other settings
        titles = [one.method for one in said]
    signed = next((one for one in said if one.negative), said[0])
    parts: list[RenderableType] = [_header(said, costs), Text(), _sentences(titles, drawn, color), Text()]
    parts += _strongest(results, titles, drawn, color)
    parts += [Text(), legend(signed, color, "no colour: the weakest by each method", layers=False)]
    if len(results) > 1:
        pairs = zip(titles[1:], agreement[0, 1:], strict=True)
        listed = ", ".join(f"{titles[0]} and {other} {value:.2f}" for other, value in pairs)
        parts.append(Text(safe(f"the rankings agree (Spearman): {listed}"), DIM if color else ""))
    return lines(parts, color)


def _header(said: Sequence[Facts], costs: Sequence[str]) -> Table:
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style=DIM, no_wrap=True)
    head.add_column(overflow="fold")
    head.add_row("prediction", Text(safe(said[0].prediction), BOLD))
    head.add_row("explained", Text(safe(said[0].target)))
    for place, one in enumerate(said):
        cost = f": {costs[place]}" if costs else ""
        head.add_row("methods" if place == 0 else "", Text(safe(one.method) + cost))
    head.add_row("model", Text(safe(said[0].model)))
    for note in dict.fromkeys(note for one in said for note in one.notes):
        head.add_row("note", Text(safe(note)))
    return head


def _sentences(titles: Sequence[str], drawn: Sequence[Layout], color: bool) -> Table:
    texts = Table.grid(padding=(0, 2, 0, 0))
    texts.add_column(no_wrap=True, max_width=32)
    texts.add_column(overflow="fold")
    for title, one in zip(titles, drawn, strict=True):
        pieces = [sentence(pieces, one.rows[0], color, one.sinks) for pieces in one.texts]
        texts.add_row(Text(safe(title), DIM if color else ""), Text("\n").join(pieces))
    return texts


def _strongest(
    results: Sequence[Attribution], titles: Sequence[str], drawn: Sequence[Layout], color: bool
) -> list[RenderableType]:
    """Return a table of the words that are strongest by any method, and how many more there are."""
    columns = drawn[0].columns
    strengths = np.stack([one.rows[0].strengths for one in drawn])  # (M, columns)
    plain = [i for i, column in enumerate(columns) if not column.special]
    chosen = sorted(plain, key=lambda i: -float(np.abs(strengths[:, i]).max()))[:STRONGEST]
    bars = len(results) <= BARS
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in results:
        table.add_column(justify="right", no_wrap=True)
        if bars:
            table.add_column(no_wrap=True, min_width=BAR)
    table.add_row("", *(cell for title in titles for cell in _heading(title, bars=bars)))
    for i in chosen:
        name = Text(safe(columns[i].name))
        name.truncate(32, overflow="ellipsis")
        cells: list[Text] = []
        for one, a in zip(drawn, results, strict=True):
            row = one.rows[0]
            cells.append(Text(number(float(row.scores[i]), row.scale, signed=a.signed)))
            if bars:
                cells.append(_bar(float(row.strengths[i]), color))
        table.add_row(name, *cells)
    more = len(plain) - len(chosen)
    return [table, Text(f"and {more} more", DIM)] if more else [table]


def _heading(title: str, *, bars: bool) -> list[Text]:
    shown = Text(safe(title), DIM)
    shown.truncate(26, overflow="ellipsis")
    return [shown, Text()] if bars else [shown]


def _bar(strength: float, color: bool) -> Text:
    length = round(abs(strength) * BAR)
    if not color:
        return Text("+-"[strength < 0] * length)
    return Text("█" * length, Style(color=color_of(INK[strength > 0])))
