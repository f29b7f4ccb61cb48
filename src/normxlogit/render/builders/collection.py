"""Cards of one or several results, and the table of several."""

from collections.abc import Sequence
from typing import Any

from ...results.attribution import Attribution, prediction_of
from ...results.base import Record
from ...results.citations import Citations
from ...results.collection import Attributions
from ..blocks import Block, Card, Cell, Column, Piece, Table, cell
from ..charts import number
from ..describe import method_text, shortened
from ..html import page
from ..layout import layout, strongest
from .comparison import comparison_blocks, curves_card
from .curves import Curve
from .generation import generation_blocks
from .similarity import similarity_blocks
from .sources import citation_blocks, source_blocks
from .text import attribution_blocks, opening

WORDS = 4
"""Strongest words in a row."""

OPEN = 3
"""Up to so many cards stand open; of more the reader opens those of interest."""


def cards(
    results: Attributions[Any],
    *,
    words: bool | None = None,
    costs: Sequence[str] = (),
) -> list[Card]:
    """Return what a page of results consists of: a card for each text, and a table of several texts.

    Several methods on one text are a card with the comparison.

    Args:
        results: The results.
        words: Whether to draw words; by default where they can be told.
        costs: The cost of each result's method, in words.

    Raises:
        DataError: If words are asked for and a result has none.
    """
    paid = iter(costs or [""] * len(results))
    groups = results.drawn_together()

    def blocks(group: Attributions[Any]) -> Sequence[Block]:
        prices = [next(paid) for _ in group]
        if len(group) > 1:
            return comparison_blocks(group, words=words, costs=prices)
        return blocks_of(group[0], words=words, cost=prices[0])

    blocks_by_group = [blocks(group) for group in groups]
    if len(groups) == 1:
        return [Card(blocks_by_group[0])]
    result_cards = [
        Card(blocks_of_group, shortened(group[0]._heading()), opened=len(groups) <= OPEN)
        for group, blocks_of_group in zip(groups, blocks_by_group, strict=True)
    ]
    texts = [[a for a in group if isinstance(a, Attribution) and prediction_of(a) is not None] for group in groups]
    if sum(map(len, texts)) < len(results) or not results:
        return result_cards
    return [Card([_overview(texts, words)], f"{len(groups)} results", result=False), *result_cards]


def blocks_of(result: Record, *, words: bool | None = None, cost: str = "") -> list[Block]:
    """Return what drawings of a result consist of.

    Args:
        result: The result.
        words: Whether to merge tokens to words, where single units are listed; by default where the result can tell.
        cost: What the method costs, in words.

    Raises:
        DataError: If words are asked for and the result has none.
    """
    if isinstance(result, Citations):
        return citation_blocks(result)
    a: Attribution = result  # type: ignore[assignment]  # what else is drawn
    if a.completion is not None:
        tokens = a.targets[0].kind == "token" and a.prompt_tokens is not None
        return generation_blocks(a) if tokens and a.generated else source_blocks(a)
    if a.quantity == "cosine" and "token" in a.units.kind:
        return similarity_blocks(a)
    return attribution_blocks(a, words=words, cost=cost)


def results_page(
    results: Attributions[Any],
    *,
    words: bool | None = None,
    costs: Sequence[str] = (),
    curves: Sequence[Curve] = (),
    title: str | None = None,
) -> str:
    """Draw a page of results: `cards`, and below them deletion curves, if there are some.

    Raises:
        DataError: If words are asked for and a result has none.
    """
    drawn = cards(results, words=words, costs=costs)
    return page([*drawn, *curves_card(curves)], title or results._title())


def _overview(groups: Sequence[Sequence[Attribution]], words: bool | None) -> Table:
    """Return a table with what the model answered to each text, and the words that it rests on most by each method."""
    methods = list(dict.fromkeys(_named(a) for group in groups for a in group))
    results = [group[0] for group in groups]
    labels = {a.prediction.label for a in results}
    values = {a.prediction.probability is None for a in results}
    value = "probability" if values == {False} else "probability or value"
    if values == {True}:  # a regression, or cosines
        value = labels.pop() if len(labels) == 1 else "value"
    rows = []
    for i, (a, group) in enumerate(zip(results, groups, strict=True)):
        chance = a.prediction.probability
        answer = f"{a.prediction.value:.4g}" if chance is None else f"{100 * chance:.1f}%"
        cells = [Cell(links={shortened(a._heading()): f"result-{i + 1}"})]
        cells += [cell(a.prediction.label)] if labels else []
        cells.append(cell(answer, a.prediction.value if chance is None else chance))
        by_method = {_named(one): Cell(_strongest(one, words)) for one in group}
        rows.append([*cells, *(by_method.get(name, Cell()) for name in methods)])
    columns = [Column("text"), *([Column("label")] if labels else []), Column(value, numbers=True)]
    columns += [Column(f"rests on, {name}" if methods[1:] else "rests on") for name in methods]
    return Table(columns, rows, numbered=True, sortable=True, filtered="label", stacked=True)


def _named(a: Attribution) -> str:
    return method_text(a.method, a.settings)


def _strongest(a: Attribution, words: bool | None) -> tuple[Piece, ...]:
    """Return the strongest words of the first label, at the layer that a drawing opens on."""
    drawn = layout(a, words=words)
    row = drawn.rows[opening(a)]
    return tuple(
        Piece(
            drawn.columns[i].name,
            float(row.strengths[i]),
            number=number(float(row.scores[i]), row.scale, signed=a.signed),
        )
        for i in strongest(drawn, row, WORDS)
    )
