"""Several methods on one text: a sentence for each, and a table with a row for each word."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..results.attribution import Attribution, Merge
from ..results.characters import safe
from .cells import FAINT, KEYS, Cell
from .curves import Curve, draw
from .html import environment, safely
from .html import sentences as sentences_of
from .layout import Facts, Layout, facts, layout, number, uncoloured

__all__ = ["fragment", "page"]

Agreement = npt.NDArray[np.float64]


class Side(NamedTuple):
    """One method.

    Attributes:
        name: Its name; with settings where another has the same.
        described: Its name with settings.
        cost: What it cost, in words, empty where that is not known.
        texts: The texts in its colours, with their directions.
        uncoloured: Which of its scores have no colour.
        notes: What the reader should know of its result.
    """

    name: str
    described: str
    cost: str
    texts: list[tuple[str, list[Cell]]]
    uncoloured: str
    notes: tuple[str, ...]


class Figure(NamedTuple):
    """Everything that the template needs."""

    facts: Facts
    signed: bool
    sides: list[Side]
    unit: str
    rows: list[tuple[int, str, list[Cell]]]
    agreement: list[list[str]]
    keys: tuple[Cell, Cell] = KEYS


def page(
    results: Sequence[Attribution],
    agreement: Agreement,
    title: str | None = None,
    *,
    words: bool | None = None,
    merge: Merge | None = None,
    costs: Sequence[str] = (),
    curves: Sequence[Curve] = (),
) -> str:
    """Draw several methods' results of one text on a page that needs nothing but a browser.

    Args:
        results: The results, in the order of the columns.
        agreement: Rank agreement between each two of them, (M, M).
        title: Heading of the page.
        words: Whether to merge tokens to words; by default where that can be told.
        merge: How, see `Attribution.words`.
        costs: What each method cost, in words, where that is known.
        curves: Deletion curves, drawn below.

    Raises:
        DataError: If words are asked for and the results cannot tell them.
    """
    figure = _figure(results, agreement, words, merge, costs)
    template = environment().get_template("comparison.html.j2")
    heading = f"{len(results)} methods on one text"
    return template.render(figure=figure, curves=draw(curves), title=safe(title or heading))


def fragment(results: Sequence[Attribution], agreement: Agreement) -> str:
    """Draw the same for a notebook: one element with its own style and no script."""
    figure = _figure(results, agreement, None, None, ())
    return environment().get_template("comparison.fragment.html.j2").render(figure=figure)


def _figure(
    results: Sequence[Attribution], agreement: Agreement, words: bool | None, merge: Merge | None, costs: Sequence[str]
) -> Figure:
    first = results[0]
    drawn = [layout(a, words=words, merge=merge) for a in results]
    paid = costs or [""] * len(results)
    names = [a.method for a in results]
    sides = [
        _side(a, one, cost, short=names.count(a.method) == 1) for a, one, cost in zip(results, drawn, paid, strict=True)
    ]
    rows = [
        (i, safe(column.name), [_cell(a, one, i, column.special) for a, one in zip(results, drawn, strict=True)])
        for i, column in enumerate(drawn[0].columns)
    ]
    signed = next((a for a in results if a.signed), first)
    return Figure(
        facts=safely(facts(signed)),
        signed=any(a.signed for a in results),
        sides=sides,
        unit="word" if words or (words is None and first.has_words) else "token",
        rows=rows,
        agreement=[["" if np.isnan(v) else f"{v:.2f}" for v in line] for line in agreement.tolist()],
    )


def _side(a: Attribution, drawn: Layout, cost: str, *, short: bool) -> Side:
    faint = uncoloured(drawn.rows, FAINT, signed=a.signed)
    texts = sentences_of(a, drawn)[0].texts
    described = safe(facts(a).method)
    return Side(safe(a.method) if short else described, described, safe(cost), texts, faint, tuple(map(safe, a.notes)))


def _cell(a: Attribution, drawn: Layout, index: int, special: bool) -> Cell:
    row = drawn.rows[0]
    strength, score = float(row.strengths[index]), float(row.scores[index])
    kind = "special" if special else "" if abs(strength) < FAINT else "for" if strength > 0 else "against"
    return Cell(number(score, row.scale, signed=a.signed), kind, abs(strength), repr(score))
