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
        alone = len(a.media) == 1
        blocks += [medium.block(signed=a.signed, alone=alone) for medium in a.scored_media]
    if a.has_text or a.scores.ndim > 1:
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
    steps = [f"layer {layer}" for layer in a.layers or ()] if laid_out.grid.steps > 1 else []
    sentences = [laid_out.sentence(row) for row in range(len(laid_out.grid.rows))]
    return Sentences(sentences, steps, representative_layer(a))


def _every_row(a: Attribution, grid: Grid) -> Fold:
    """Return the heat map of several labels or layers."""
    axis = "token" if a.targets[0].kind == "token" else "label"
    return Fold(f"Every {axis if a.layers is None else 'layer'}", [bounded(grid)], opened=True)


def _strongest(laid_out: Layout) -> Blocks:
    """Return the strongest scores with bars and with what the model answers without them."""
    grid = laid_out.grid
    without = laid_out.facts[WITHOUT]
    ranked = [column for rank, column in enumerate(grid.strongest(0)) if rank < MOST_BARS or without[column]]
    if not ranked:
        return [Paragraph(f"no {laid_out.unit} has a score other than zero")]
    read_columns = [column for column, kind in enumerate(grid.kinds) if kind == "read"]
    notes = [Paragraph(f"read here: {grid.columns[i]} {grid.number(0, i)}. {READ_HERE}") for i in read_columns]
    return [_bars(grid, ranked, without, laid_out.unit), *notes, *_unknown_words(laid_out)]


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
    """Return the blocks of several methods' results for one text and target."""
    layouts = _layouts(results, words)
    titles = distinct_names(results, method_of)
    described = header(results)
    tested = [(f"tested, {title}", verdict(a.verified)) for title, a in zip(titles, results, strict=True)]
    _, positive, negative = meanings(next((a for a in results if a.signed), results[0]))
    unknown = layouts[0].facts[READ_AS]
    return [
        replace(described, facts=[*described.facts, *(fact for fact in tested if fact[1])]),
        Sentences([laid_out.sentence(caption=title) for laid_out, title in zip(layouts, titles, strict=True)]),
        _every_score(layouts, titles, {READ_AS: unknown} if any(unknown) else {}),
        Legend(positive, negative, notes=["each method by its own largest score"]),
        _agreement(titles, results.agreement.correlations),
    ]


def _agreement(titles: Sequence[str], correlations: Float64Array) -> Table:
    """Return the table of rank correlations, (M, M)."""
    rows = [
        [cell(title), *(cell("none" if np.isnan(correlation) else f"{correlation:.2f}") for correlation in row)]
        for title, row in zip(titles, correlations, strict=True)
    ]
    return Table([Column(""), *(Column(title, numbers=True) for title in titles)], rows, AGREEMENT)


def comparison_grid(results: Sequence[Attribution]) -> Grid:
    """Return several methods on one text as a heat map, each row on the scale of its own largest score."""
    grids = [drawn.grid for drawn in _layouts(results, None)]
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
    """Lay out the results of several methods on one target and layer, with the same pieces of text."""
    layouts = [layout(a, words=words) for a in results]
    first = (layouts[0].grid.columns, layouts[0].tokens, 1)
    if any((drawn.grid.columns, drawn.tokens, len(drawn.grid.rows)) != first for drawn in layouts):
        raise DataError("methods side by side need one score for each token of the same text")
    return layouts


def _bars(grid: Grid, ranked: Sequence[int], without: Sequence[str], unit: str) -> Table:
    """Return the strongest scores with bars, and those of words that were removed in a verification.

    Args:
        grid: One row of scores.
        ranked: The columns that are shown, in their order.
        without: The answer without each column; empty where it was not measured.
        unit: What a column is.
    """
    scores = grid.scores[0, ranked].tolist()
    least, largest = min(0.0, *scores), max(0.0, *scores)
    span = largest - least
    rows = [
        [
            cell(grid.columns[column]),
            cell(grid.number(0, column), score),
            Cell(bar=Bar(-least / span, (score - least) / span)),
            cell(without[column]),
        ]
        for column, score in zip(ranked, scores, strict=True)
    ]
    columns = [Column(""), Column("score", numbers=True), Column(""), Column(WITHOUT)]
    if not any(without[column] for column in ranked):
        columns = [Column(""), Column("", numbers=True), Column("")]
        rows = [row[:-1] for row in rows]
    return Table(columns, rows, _caption_of_bars(grid, len(ranked), unit), stacked=True)


def _caption_of_bars(grid: Grid, listed: int, unit: str) -> str:
    """Return how many of the units with a score have a bar, and what they are."""
    count = len(grid.strongest(0))
    units = unit if count == 1 else f"{unit}{'es' if unit.endswith('ch') else 's'}"
    return f"The {listed} strongest of {count} {units}" if count > listed else units.capitalize()


def _every_score(layouts: Sequence[Layout], titles: Sequence[str], facts: Facts) -> Table:
    """Return a table of the words with their scores, coloured where there are several methods to compare.

    Args:
        layouts: The words with the scores of each method.
        titles: The names of the methods.
        facts: Further columns, each with a text for each word, by their headings.
    """
    unit, first = layouts[0].unit, layouts[0].grid
    strengths = np.stack([laid_out.grid.strengths[0] for laid_out in layouts])  # (M, columns)
    sizes, are_compared = np.abs(strengths).max(0, initial=0.0), len(layouts) > 1  # (columns,)
    kinds = {"special": "special"}  # others are told by the colours of the text
    words = zip(first.columns, first.kinds, strict=True)
    columns = [[Cell((Piece(name, kind=kinds.get(kind, "")),)) for name, kind in words]]
    for laid_out, colours in zip(layouts, strengths if are_compared else 0 * strengths, strict=True):
        scored = enumerate(zip(laid_out.grid.scores[0].tolist(), colours.tolist(), strict=True))
        columns.append([cell(laid_out.grid.number(0, i), score, strength=colour) for i, (score, colour) in scored])
    columns += [list(map(cell, fact)) for fact in facts.values()]
    return Table(
        [Column(unit), *(Column(title, numbers=True) for title in titles), *map(Column, facts)],
        list(zip(*columns, strict=True)),
        f"Scores of each {unit}" if are_compared else "",
        numbered=True,
        sortable=True,
        terminal_rows=sorted(first.plain, key=lambda i: -sizes[i])[:MOST_BARS],
    )
