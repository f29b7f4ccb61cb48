"""Cards of one or several results, and the table of several."""

from collections.abc import Sequence
from typing import Any

from ..results.attribution import Attribution, prediction_of
from ..results.base import Record
from ..results.comparison import Comparison
from ..results.words import Merge
from .blocks import Card, Cell, Column, Piece, Table, cell
from .charts import number
from .comparison_blocks import curves_card
from .curves import Curve
from .describe import method_text, shortened, text_of
from .draw import blocks_of
from .html import page
from .layout import layout, strongest
from .text_blocks import opening

WORDS = 4
"""Strongest words in a row."""

OPEN = 3
"""Up to so many cards stand open; of more the reader opens those of interest."""


def cards(
    results: Sequence[Record],
    *,
    words: bool | None = None,
    merge: Merge | None = None,
    costs: Sequence[str] = (),
) -> list[Card]:
    """Return what a page of results consists of: a card for each, and a table of several texts.

    Raises:
        DataError: If words are asked for and a result has none.
    """

    def blocks(result: Record, cost: str) -> Any:
        if isinstance(result, Attribution):
            return blocks_of(result, words=words, merge=merge, cost=cost)
        return result._blocks()

    drawn = [blocks(result, cost) for result, cost in zip(results, costs or [""] * len(results), strict=True)]
    if len(results) == 1:
        return [Card(drawn[0])]
    result_cards = [
        Card(one, shortened(result._heading()), opened=len(results) <= OPEN)
        for result, one in zip(results, drawn, strict=True)
    ]
    texts = [result for result in results if isinstance(result, Attribution) and prediction_of(result) is not None]
    if not results or len(texts) < len(results):
        return result_cards
    return [Card([_overview(texts, words, merge)], f"{len(texts)} results", result=False), *result_cards]


def results_page(
    results: Sequence[Attribution],
    *,
    words: bool | None = None,
    merge: Merge | None = None,
    costs: Sequence[str] = (),
    curves: Sequence[Curve] = (),
) -> str:
    """Draw a page of results: one text by several methods side by side, anything else result by result.

    Args:
        results: The results.
        words: Whether to draw words; by default where they can be told.
        merge: How a word's score comes from its tokens'.
        costs: The cost of each result's method, in words.
        curves: Deletion curves, drawn below.

    Raises:
        DataError: If words are asked for and a result has none.
    """
    together = Comparison(results).by_text()
    if len(together) == 1 and together[0].comparable:
        return together[0].to_html(words=words, merge=merge, costs=costs, curves=curves)
    return page([*cards(results, words=words, merge=merge, costs=costs), *curves_card(curves)], results[0]._title())


def _overview(results: Sequence[Attribution], words: bool | None, merge: Merge | None) -> Table:
    """Return a table with what the model answered to each text, and the words that it rests on most."""
    methods = [method_text(a.method, a.settings) for a in results]
    several = len(set(methods)) > 1
    labels = {a.prediction.label for a in results}
    values = {a.prediction.probability is None for a in results}
    value = "probability" if values == {False} else "probability or value"
    if values == {True}:  # a regression, or cosines
        value = labels.pop() if len(labels) == 1 else "value"
    columns = [Column("text"), *([Column("method")] if several else [])]
    columns += [Column("label")] if labels else []
    rows = []
    for i, a in enumerate(results):
        chance = a.prediction.probability
        shown = f"{a.prediction.value:.4g}" if chance is None else f"{100 * chance:.1f}%"
        cells = [Cell(links={shortened(text_of(a)): f"result-{i + 1}"})]
        cells += [cell(methods[i])] if several else []
        cells += [cell(a.prediction.label)] if labels else []
        cells.append(cell(shown, a.prediction.value if chance is None else chance))
        rows.append([*cells, Cell(_strongest(a, words, merge))])
    columns += [Column(value, numbers=True), Column("rests on")]
    return Table(columns, rows, numbered=True, sortable=True, filtered="label")


def _strongest(a: Attribution, words: bool | None, merge: Merge | None) -> tuple[Piece, ...]:
    """Return the strongest words of the first label, at the layer that a drawing opens on."""
    drawn = layout(a, words=words, merge=merge)
    row = drawn.rows[opening(a)]
    return tuple(
        Piece(
            drawn.columns[i].name,
            float(row.strengths[i]),
            number=number(float(row.scores[i]), row.scale, signed=a.signed),
        )
        for i in strongest(drawn, row, WORDS)
    )
