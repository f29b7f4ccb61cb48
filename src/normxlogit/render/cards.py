"""Cards of one or several results, and the table of several."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ..results.attribution import Attribution
from ..results.base import for_kind_of
from ..results.collection import Attributions
from ..results.layers import representative_layer
from ..results.targets import answer_number, prediction_of
from ..results.unexplained import Unexplained
from ..results.units.characters import shortened
from .blocks import Block, Blocks, Card, Cell, Column, Header, Table, cell
from .describe import method_of
from .generation import generation_blocks
from .html import page
from .layout import layout
from .sources import source_blocks
from .text import attribution_blocks, comparison_blocks

WORDS_IN_ROW = 4
"""Most words in a row."""

MOST_OPEN_CARDS = 3
"""Most cards on a page with which all of them are opened at first."""


def cards(results: Attributions[Any], *, words: bool | None = None) -> list[Card]:
    """Return the cards of a page: one for each text, with its methods side by side, and a table of several texts.

    Args:
        results: The results.
        words: Whether tokens are drawn as words; None where words can be told.
    """
    groups = results.drawn_together()
    if len(groups) == 1:  # the page's title is its heading
        return [Card(_blocks_of_group(groups[0], words))]
    result_cards = [
        Card(
            _blocks_of_group(group, words), heading=shortened(group[0].heading()), opened=len(groups) <= MOST_OPEN_CARDS
        )
        for group in groups
    ]
    # The table names predictions: completions and inputs that were not explained have none.
    have_predictions = all(isinstance(a, Attribution) and prediction_of(a) is not None for a in results)
    if groups and have_predictions:
        return [Card([_overview(groups, words)], f"{len(groups)} results", result=False), *result_cards]
    return result_cards


def _blocks_of_group(group: Attributions[Any], words: bool | None) -> Sequence[Block]:
    """Return the blocks of a result, or of several methods on one text."""
    if len(group) > 1:
        return comparison_blocks(group, words=words)
    return list(for_kind_of(group[0], "drawers")(group[0], words=words))


def drawings(results: Attributions[Any], *, words: bool | None = None) -> list[Sequence[Block]]:
    """Return the blocks of each text, as a terminal and a notebook show them.

    Args:
        results: The results.
        words: As in `cards`.
    """
    return [card.blocks for card in cards(results, words=words) if card.result]


def blocks_of_attribution(a: Attribution, *, words: bool | None = None) -> Blocks:
    """Return the blocks of an attribution.

    Args:
        a: The result.
        words: As in `cards`.
    """
    if a.completion is None:
        return attribution_blocks(a, words=words)
    # Targets that are parts of the answer, and units that are sources, are drawn as an answer with its sources.
    is_of_tokens = a.targets[0].kind == "token" and a.prompt_tokens is not None
    return generation_blocks(a) if is_of_tokens and a.generated else source_blocks(a)


def blocks_of_unexplained(result: Unexplained, *, words: bool | None = None) -> Blocks:
    """Return the block of an input that was not explained."""
    return [Header("not explained", [("reason", result.reason)])]


def results_page(results: Attributions[Any], *, words: bool | None = None, title: str | None = None) -> str:
    """Draw a page of results.

    Args:
        results: The results.
        words: As in `cards`.
        title: The title of the page; None for what all results are.

    Returns:
        The page in HTML.
    """
    titles = {result.scored.title for result in results if result.error is None}  # with an error there are no scores
    heading = titles.pop() if len(titles) == 1 else "Results"
    if len(results) > 1 and len(results.drawn_together()) == 1:
        heading = f"{len(results)} methods on one text"
    return page(cards(results, words=words), title or heading)


def _overview(groups: Sequence[Attributions[Attribution]], words: bool | None) -> Table:
    """Return a table of texts with the predictions, and the top words of each method.

    Args:
        groups: For each text its result, or those of several methods.
        words: As in `cards`.
    """
    methods = list(dict.fromkeys(map(method_of, chain.from_iterable(groups))))
    labels = {group[0].prediction.label for group in groups}  # the methods of a group explain one prediction
    # A regression and a cosine have no probability.
    quantities = {"value" if group[0].prediction.probability is None else "probability" for group in groups}
    columns = [Column("text"), Column("label"), Column(" or ".join(sorted(quantities)), numbers=True)]
    columns += [Column(f"rests on, {name}") for name in methods] if len(methods) > 1 else [Column("rests on")]
    rows = [_overview_row(number, group, methods, words) for number, group in enumerate(groups, 1)]
    is_one_value = len(labels) == 1 and quantities == {"value"}  # of a regression, or cosines
    if is_one_value:  # the label is named once, above the values, and not in each row
        columns[1:3] = [Column(labels.pop(), numbers=True)]
        for row in rows:
            del row[1]  # the label, behind the text
    return Table(columns, rows, numbered=True, sortable=True, filtered="label", stacked=True)


def _overview_row(
    number: int, group: Attributions[Attribution], methods: Sequence[str], words: bool | None
) -> list[Cell]:
    """Return the row of one text: a link to its card, the prediction, and the top words of each method.

    Args:
        number: The number of the text, from 1.
        group: Its result, or those of several methods.
        methods: The names of all methods, each of which has a column.
        words: As in `cards`.
    """
    prediction = group[0].prediction
    sorted_by = prediction.value if prediction.probability is None else prediction.probability
    strongest = {
        method_of(a): layout(a, words=words).grid.strongest_pieces(representative_layer(a), WORDS_IN_ROW) for a in group
    }
    return [
        Cell(links={shortened(group[0].heading()): f"result-{number}"}),
        cell(prediction.label),
        cell(answer_number(prediction), sorted_by),
        *(Cell(strongest.get(name, ())) for name in methods),  # empty for a method that was not run on this text
    ]
