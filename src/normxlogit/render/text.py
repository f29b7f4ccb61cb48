"""The blocks of a text, picture or sound, by one method or by several side by side."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import DataError, listed
from ..results.attribution import Attribution
from ..results.collection import Attributions, distinct_names
from ..results.layers import representative_layer
from ..results.storage.schema import Float64Array
from ..results.verification import MOST_NAMED, verdict
from .blocks import Bar, Block, Blocks, Cell, Column, Fold, Paragraph, Piece, Sentences, Table, cell
from .charts import Grid, Legend
from .describe import WITHOUT, header, meanings, method_of, removals_table
from .layout import READ_AS, READ_HERE, Facts, Layout, layout

MOST_BARS = 8
"""Most words with a bar, or with a line for several methods."""

MOST_FIELDS = 8_000
"""Most fields of a heat map on a page."""

UNREAD_WORDS = "The tokenizer does not know {}: the model reads {} there, as for any other unknown word"

AGREEMENT = "How far the rankings agree: 1 the same order, 0 none, -1 the reverse (Spearman)"


def attribution_blocks(a: Attribution, *, words: bool | None = None) -> Blocks:
    """Return the blocks of a result that is not of generated text.

    Args:
        a: The result.
        words: Whether single units are words, not tokens; by default where the result can tell words.
    """
    laid_out = layout(a, words=words)
    blocks: Blocks = [header([a], verdict(a.verified))]
    if a.scores.ndim == 1:
        alone = len(a.media) == 1  # then its parts need not say of which medium they are
        blocks += [medium.block(signed=a.signed, alone=alone) for medium in a.scored_media]
    if a.has_text or a.scores.ndim > 1:  # parts of a picture alone are drawn on it, unless there are several rows
        blocks.append(_coloured_text(a, laid_out))
    if len(laid_out.grid.rows) > 1:
        return [*blocks, laid_out.legend(a), _every_row(a, laid_out.grid)]
    blocks += _strongest(laid_out)
    blocks.append(laid_out.legend(a))
    blocks += removals_table(a.verified, has_bars=True)
    if laid_out.grid.columns:
        blocks.append(_all_scores(laid_out))
    return blocks


def _coloured_text(a: Attribution, laid_out: Layout) -> Sentences:
    """Return the text in the colours of each row of scores; with a slider where there are several layers."""
    # A single layer needs no slider.
    steps = [f"layer {layer}" for layer in a.layers or ()] if laid_out.grid.steps > 1 else []
    sentences = [laid_out.sentence(row) for row in range(len(laid_out.grid.rows))]
    return Sentences(sentences, steps, representative_layer(a))


def _every_row(a: Attribution, grid: Grid) -> Fold:
    """Return the heat map of several labels or layers."""
    axis = "token" if a.targets[0].kind == "token" else "label"
    return Fold(f"Every {axis if a.layers is None else 'layer'}", [bounded(grid)], opened=True)


def _strongest(laid_out: Layout) -> Blocks:
    """Return the strongest scores with bars and with what the model answers without them."""
    grid, without = laid_out.grid, laid_out.facts[WITHOUT]
    # Words that were removed have a bar whatever their rank.
    shown = [column for rank, column in enumerate(grid.strongest(0)) if rank < MOST_BARS or without[column]]
    if not shown:
        return [Paragraph(f"no {laid_out.unit} has a score other than zero")]
    notes = [
        Paragraph(f"read here: {grid.columns[column]} {grid.number(0, column)}. {READ_HERE}")
        for column, kind in enumerate(grid.kinds)
        if kind == "read"
    ]
    return [_bars(grid, shown, without, laid_out.unit), *notes, *_unknown_words(laid_out)]


def _unknown_words(laid_out: Layout) -> Blocks:
    """Return a line that names the words that the tokenizer does not know, if there are any."""
    read_as = {name: token for name, token in zip(laid_out.grid.columns, laid_out.facts[READ_AS], strict=True) if token}
    if not read_as:
        return []
    tokens = ", ".join(dict.fromkeys(read_as.values()))
    return [Paragraph(UNREAD_WORDS.format(listed([*read_as], MOST_NAMED), tokens))]


def _all_scores(laid_out: Layout) -> Fold:
    """Return the table of all scores, with what was measured of each column."""
    count = len(laid_out.grid.columns)
    facts = {name: column for name, column in laid_out.facts.items() if any(column)}
    table = _every_score([laid_out], ["score"], facts)
    return Fold(f"All {count} scores" if count > 1 else "The score", [table])


def comparison_blocks(results: Attributions[Attribution], *, words: bool | None = None) -> Blocks:
    """Return the blocks of several methods' results for one text and target.

    Args:
        results: A result of each method.
        words: Whether pieces are words, as in `layout`.
    """
    layouts = _layouts(results, words)
    titles = distinct_names(results, method_of)
    common_header = header(results)
    verdicts = [
        (f"tested, {title}", verdict(a.verified)) for title, a in zip(titles, results, strict=True) if a.verified
    ]
    signed = next((a for a in results if a.signed), results[0])  # its legend explains both colours
    meaning = meanings(signed)
    unknown = layouts[0].facts[READ_AS]  # of the tokenizer, the same for each method
    return [
        replace(common_header, facts=[*common_header.facts, *verdicts]),
        Sentences([laid_out.sentence(caption=title) for laid_out, title in zip(layouts, titles, strict=True)]),
        _every_score(layouts, titles, {READ_AS: unknown} if any(unknown) else {}),
        Legend(meaning.positive, meaning.negative, notes=["each method by its own largest score"]),
        _agreement(titles, results.agreement.correlations),
    ]


def _agreement(titles: Sequence[str], correlations: Float64Array) -> Table:
    """Return the table of rank correlations, (M, M).

    Args:
        titles: The names of the M methods.
        correlations: Their correlations, (M, M); NaN where there is none.
    """
    rows = [
        [cell(title), *(cell("none" if np.isnan(correlation) else f"{correlation:.2f}") for correlation in row)]
        for title, row in zip(titles, correlations, strict=True)
    ]
    return Table([Column(""), *(Column(title, numbers=True) for title in titles)], rows, AGREEMENT)


def comparison_grid(results: Sequence[Attribution]) -> Grid:
    """Return several methods on one text as a heat map, each row on the scale of its own largest score."""
    grids = [laid_out.grid for laid_out in _layouts(results, None)]
    scores = np.concatenate([grid.scores for grid in grids])  # (M, columns)
    return Grid(
        rows=distinct_names(results, method_of),
        columns=grids[0].columns,
        scores=scores,
        label="score / largest of the method",
        kinds=grids[0].kinds,
        relative=True,
    )


def bounded(grid: Grid) -> Block:
    """Return a heat map, or a notice if it is too large for a page."""
    notice = f"The table of {grid.scores.size:,} scores is too large for a page; the saved JSON has it."
    return Paragraph(notice) if grid.scores.size > MOST_FIELDS else grid


def _layouts(results: Sequence[Attribution], words: bool | None) -> list[Layout]:
    """Lay out the results of several methods on one target and layer, with the same pieces of text.

    Args:
        results: A result of each method.
        words: Whether pieces are words, as in `layout`.
    """
    layouts = [layout(a, words=words) for a in results]
    first = layouts[0]
    for laid_out in layouts:
        has_same_pieces = laid_out.grid.columns == first.grid.columns and laid_out.tokens == first.tokens
        if not has_same_pieces or len(laid_out.grid.rows) != 1:
            raise DataError("methods side by side need one score for each token of the same text")
    return layouts


def _bars(grid: Grid, shown: Sequence[int], without: Sequence[str], unit: str) -> Table:
    """Return the strongest scores with bars, and those of words that were removed in a verification.

    Args:
        grid: One row of scores.
        shown: The columns that have a bar, in their order.
        without: The answer without each column; empty where it was not measured.
        unit: What a column is.
    """
    scores = grid.scores[0, shown].tolist()
    axis_start = min(0.0, *scores)
    axis_length = max(0.0, *scores) - axis_start
    was_removed = any(without[column] for column in shown)
    rows = []
    for column, score in zip(shown, scores, strict=True):
        # The length is not 0: columns with a score of 0 are not shown.
        bar = Bar(start=-axis_start / axis_length, end=(score - axis_start) / axis_length)
        row = [cell(grid.columns[column]), cell(grid.number(0, column), score), Cell(bar=bar)]
        rows.append([*row, cell(without[column])] if was_removed else row)
    columns = [Column(""), Column("score" if was_removed else "", numbers=True), Column("")]
    if was_removed:
        columns.append(Column(WITHOUT))
    return Table(columns, rows, _caption_of_bars(grid, len(shown), unit), stacked=True)


def _caption_of_bars(grid: Grid, shown_count: int, unit: str) -> str:
    """Return the caption of some bars, which says of how many these are the strongest."""
    count = len(grid.strongest(0))  # those with a score other than 0
    units = unit if count == 1 else f"{unit}{'es' if unit.endswith('ch') else 's'}"
    return f"The {shown_count} strongest of {count} {units}" if count > shown_count else units.capitalize()


def _every_score(layouts: Sequence[Layout], titles: Sequence[str], facts: Facts) -> Table:
    """Return a table of the words with their scores, coloured where there are several methods to compare.

    Args:
        layouts: The words with the scores of each method.
        titles: The names of the methods.
        facts: Further columns, each with a text for each word, by their headings.
    """
    unit, first = layouts[0].unit, layouts[0].grid
    are_compared = len(layouts) > 1
    columns = [_names_of_words(first)]
    columns += [_cells_of_scores(laid_out.grid, are_coloured=are_compared) for laid_out in layouts]
    columns += [list(map(cell, fact)) for fact in facts.values()]
    strengths = np.stack([laid_out.grid.strengths[0] for laid_out in layouts])  # (M, columns)
    largest = np.abs(strengths).max(0, initial=0.0)  # (columns,), by which a terminal picks its rows
    return Table(
        [Column(unit), *(Column(title, numbers=True) for title in titles), *map(Column, facts)],
        list(zip(*columns, strict=True)),
        f"Scores of each {unit}" if are_compared else "",
        numbered=True,
        sortable=True,
        terminal_rows=sorted(first.plain, key=lambda column: -largest[column])[:MOST_BARS],
    )


def _names_of_words(grid: Grid) -> list[Cell]:
    """Return a cell with the name of each word; of the kinds only special tokens differ from others in a table."""
    kinds = ["special" if kind == "special" else "" for kind in grid.kinds]
    return [Cell((Piece(name, kind=kind),)) for name, kind in zip(grid.columns, kinds, strict=True)]


def _cells_of_scores(grid: Grid, *, are_coloured: bool) -> list[Cell]:
    """Return a cell with the score of each word in the first row of a grid."""
    scores, strengths = grid.scores[0].tolist(), grid.strengths[0].tolist()
    return [
        cell(grid.number(0, column), score, strength=strength if are_coloured else 0.0)
        for column, (score, strength) in enumerate(zip(scores, strengths, strict=True))
    ]
