"""The blocks of a text, picture or sound, by one method or by several side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..errors import DataError, listed
from ..results.attribution import Attribution, representative_layer
from ..results.collection import Attributions
from ..results.verification import NAMED, verdict
from .blocks import Bar, Block, Cell, Column, Fold, Paragraph, Piece, Sentences, Table, cell
from .charts import Grid, Legend
from .describe import WITHOUT, distinct_methods, header, meanings, removals_table
from .layout import READ_AS, READ_HERE, Layout, layout

STRONGEST, LARGEST = 8, 8_000
"""Most words with a bar, or a line for several methods; most fields of a heat map on a page."""

UNREAD_WORDS = "The tokenizer does not know {}: the model reads {} there, as for any other unknown word"

AGREEMENT = "How far the rankings agree: 1 the same order, 0 none, -1 the reverse (Spearman)"


def attribution_blocks(a: Attribution, *, words: bool | None = None) -> list[Block]:
    """Return the blocks of a result that is not of generated text.

    Args:
        a: The result.
        words: Whether single units are words, not tokens; by default where the result can tell words.
    """
    laid_out = layout(a, words=words)
    blocks: list[Block] = [header([a], verdict(a.verified))]
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


def _strongest(laid_out: Layout) -> list[Block]:
    """Return the strongest scores with bars and with what the model answers without them."""
    grid, without = laid_out.grid, laid_out.facts[WITHOUT]
    ranked = [column for rank, column in enumerate(grid.strongest(0)) if rank < STRONGEST or without[column]]
    if not ranked:
        return [Paragraph(f"no {laid_out.unit} has a score other than zero")]
    read_columns = [column for column, kind in enumerate(grid.kinds) if kind == "read"]
    notes = [Paragraph(f"read here: {grid.columns[i]} {grid.number(0, i)}. {READ_HERE}") for i in read_columns]
    return [_bars(grid, ranked, without, laid_out.unit), *notes, *_unknown_words(laid_out)]


def _unknown_words(laid_out: Layout) -> list[Block]:
    """Return a line that names the words that the tokenizer does not know, if there are any."""
    read_as = {name: token for name, token in zip(laid_out.grid.columns, laid_out.facts[READ_AS], strict=True) if token}
    if not read_as:
        return []
    tokens = ", ".join(dict.fromkeys(read_as.values()))
    return [Paragraph(UNREAD_WORDS.format(listed([*read_as], NAMED), tokens))]


def _all_scores(laid_out: Layout) -> Fold:
    """Return the table of all scores, with what was measured of each column."""
    count = len(laid_out.grid.columns)
    facts = {name: column for name, column in laid_out.facts.items() if any(column)}
    table = _every_score([laid_out.grid], laid_out.unit, ["score"], facts)
    return Fold(f"All {count} scores" if count > 1 else "The score", [table])


def comparison_blocks(results: Attributions[Attribution], *, words: bool | None = None) -> list[Block]:
    """Return the blocks of several methods' results for one text and target."""
    layouts, titles, described = _layouts(results, words), distinct_methods(results), header(results)
    tested = zip(titles, (verdict(a.verified) for a in results), strict=True)
    _, positive, negative = meanings(next((a for a in results if a.signed), results[0]))
    agreement = [
        [cell(title), *(cell("none" if np.isnan(v) else f"{v:.2f}") for v in line)]
        for title, line in zip(titles, results.agreement.correlations.tolist(), strict=True)
    ]
    facts = [*described.facts, *((f"tested, {title}", text) for title, text in tested if text)]
    unknown = layouts[0].facts[READ_AS]
    read_as = {READ_AS: unknown} if any(unknown) else {}
    return [
        replace(described, facts=facts),
        Sentences([laid_out.sentence(caption=title) for laid_out, title in zip(layouts, titles, strict=True)]),
        _every_score([laid_out.grid for laid_out in layouts], layouts[0].unit, titles, read_as),
        Legend(positive, negative, notes=["each method by its own largest score"]),
        Table([Column(""), *(Column(title, numbers=True) for title in titles)], agreement, AGREEMENT),
    ]


def comparison_grid(results: Sequence[Attribution]) -> Grid:
    """Return several methods on one text as a heat map, each row on the scale of its own largest score."""
    grids = [drawn.grid for drawn in _layouts(results, None)]
    scores = np.concatenate([grid.scores for grid in grids])  # (M, columns)
    label = "score / largest of the method"
    return Grid(distinct_methods(results), grids[0].columns, scores, label=label, kinds=grids[0].kinds, relative=True)


def bounded(grid: Grid) -> Block:
    """Return a heat map, or a notice if it is too large for a page."""
    notice = f"The table of {grid.scores.size:,} scores is too large for a page; the saved JSON has it."
    return Paragraph(notice) if grid.scores.size > LARGEST else grid


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
    scores = {column: float(grid.scores[0, column]) for column in ranked}
    measured = any(without[column] for column in ranked)
    least, largest = min(0.0, *scores.values()), max(0.0, *scores.values())
    span = largest - least
    rows = []
    for column, score in scores.items():
        bar = Bar(-least / span, (score - least) / span)
        cells = [cell(grid.columns[column]), cell(grid.number(0, column), score), Cell(bar=bar)]
        rows.append([*cells, cell(without[column])] if measured else cells)
    columns = [Column(""), Column("score" if measured else "", numbers=True), Column("")]
    if measured:
        columns.append(Column(WITHOUT))
    return Table(columns, rows, _caption_of_bars(grid, len(ranked), unit), stacked=True)


def _caption_of_bars(grid: Grid, listed: int, unit: str) -> str:
    count = len(grid.strongest(0))
    units = unit if count == 1 else f"{unit}{'es' if unit.endswith('ch') else 's'}"
    return f"The {listed} strongest of {count} {units}" if count > listed else units.capitalize()


def _every_score(grids: Sequence[Grid], unit: str, titles: Sequence[str], facts: Mapping[str, Sequence[str]]) -> Table:
    """Return a table of the words with their scores by each method, and further columns of texts by their headings."""
    rows, several = [], len(grids) > 1
    for i, name in enumerate(grids[0].columns):
        cells = [  # colours compare methods
            cell(g.number(0, i), float(g.scores[0, i]), strength=float(g.strengths[0, i]) * several) for g in grids
        ]
        kind = "special" if grids[0].kinds[i] == "special" else ""
        rows.append([Cell((Piece(name, kind=kind),)), *cells, *(cell(column[i]) for column in facts.values())])
    columns = [Column(unit), *(Column(title, numbers=True) for title in titles), *map(Column, facts)]
    sizes = np.abs(np.concatenate([grid.strengths for grid in grids])).max(0, initial=0.0)  # (columns,)
    strongest = sorted(grids[0].plain, key=lambda i: -float(sizes[i]))[:STRONGEST]
    caption = f"Scores of each {unit}" if several else ""
    return Table(columns, rows, caption, numbered=True, sortable=True, terminal_rows=strongest)
