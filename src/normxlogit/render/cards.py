"""Cards of one or several results, and the table of several."""

from collections.abc import Sequence
from typing import Any

from ..results.attribution import Attribution, representative_layer
from ..results.base import for_kind_of
from ..results.collection import Attributions
from ..results.targets import answer_number, prediction_of
from ..results.unexplained import Unexplained
from ..results.units.characters import shortened
from .blocks import Block, Card, Cell, Column, Header, Table, cell
from .describe import method_of
from .generation import generation_blocks
from .html import page
from .layout import layout
from .sources import source_blocks
from .text import attribution_blocks, comparison_blocks

WORDS, OPEN = 4, 3
"""Most words in a row; most cards on a page that are opened at first."""


def cards(results: Attributions[Any], *, words: bool | None = None) -> list[Card]:
    """Return the cards of a page: one for each text, with its methods side by side, and a table of several texts.

    With `words` single units are drawn as words; by default where these can be told.
    """
    groups, result_cards = results.drawn_together(), []
    for group in groups:
        blocks = (
            comparison_blocks(group, words=words)
            if len(group) > 1
            else for_kind_of(group[0], "drawers")(group[0], words=words)
        )
        heading = shortened(group[0]._heading()) if len(groups) > 1 else ""
        result_cards.append(Card(blocks, heading, opened=len(groups) <= OPEN))
    if len(groups) == 1 or not all(isinstance(a, Attribution) and prediction_of(a) is not None for a in results):
        return result_cards
    return [Card([_overview(groups, words)], f"{len(groups)} results", result=False), *result_cards] if groups else []


def drawings(results: Attributions[Any], *, words: bool | None = None) -> list[Sequence[Block]]:
    """Return the blocks of each text, as a terminal and a notebook show them; arguments as of `cards`."""
    return [card.blocks for card in cards(results, words=words) if card.result]


def blocks_of_attribution(a: Attribution, *, words: bool | None = None) -> list[Block]:
    """Return the blocks of an attribution; `words` as in `cards`."""
    if a.completion is not None:
        tokens = a.targets[0].kind == "token" and a.prompt_tokens is not None
        return generation_blocks(a) if tokens and a.generated else source_blocks(a)
    return attribution_blocks(a, words=words)


def blocks_of_unexplained(result: Unexplained, *, words: bool | None = None) -> list[Block]:
    """Return the block of an input that was not explained."""
    return [Header("not explained", [("reason", result.reason)])]


def results_page(results: Attributions[Any], *, words: bool | None = None, title: str | None = None) -> str:
    """Draw a page of results: `cards`."""
    return page(cards(results, words=words), title or _title(results))


def _title(results: Attributions[Any]) -> str:
    """Return the heading of a page."""
    if len(results) > 1 and len(results.drawn_together()) == 1:
        return f"{len(results)} methods on one text"
    titles = {result.scored.title for result in results if result.error is None}
    return titles.pop() if len(titles) == 1 else "Results"


def _overview(groups: Sequence[Attributions[Attribution]], words: bool | None) -> Table:
    """Return a table of texts with the predictions, and the top words of each method."""
    methods = list(dict.fromkeys(method_of(a) for group in groups for a in group))
    predictions = [group[0].prediction for group in groups]
    labels = {prediction.label for prediction in predictions}
    are_values = {prediction.probability is None for prediction in predictions}
    value_heading = "probability or value" if True in are_values else "probability"
    if False not in are_values:  # a regression, or cosines: a single label is named here, and not in rows
        value_heading = labels.pop() if len(labels) == 1 else "value"
    rows = []
    for i, (prediction, group) in enumerate(zip(predictions, groups, strict=True)):
        sorted_by = prediction.value if prediction.probability is None else prediction.probability
        cells = [
            Cell(links={shortened(group[0]._heading()): f"result-{i + 1}"}),
            *([cell(prediction.label)] if labels else []),
            cell(answer_number(prediction), sorted_by),
        ]
        strongest = {
            method_of(a): layout(a, words=words).grid.strongest_pieces(representative_layer(a), WORDS) for a in group
        }
        rows.append([*cells, *(Cell(strongest.get(name, ())) for name in methods)])
    columns = [Column("text"), *([Column("label")] if labels else []), Column(value_heading, numbers=True)]
    columns += [Column(f"rests on, {name}" if len(methods) > 1 else "rests on") for name in methods]
    return Table(columns, rows, numbered=True, sortable=True, filtered="label", stacked=True)
