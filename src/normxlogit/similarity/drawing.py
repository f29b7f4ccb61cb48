"""The blocks of the similarity of two texts, and of a ranking."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..render.blocks import Block, Cell, Column, Fold, Header, MediumBlock, Piece, Table, cell
from ..render.charts import Grid, Legend
from ..render.describe import removals_table
from ..render.text import attribution_blocks
from .result import Similarity

LISTED_PAIRS = 8
"""How many pairs of words are listed, the strongest."""

NAMED_WORDS = 3
"""How many words a row of a ranking names, the strongest."""


def similarity_blocks(s: Similarity, *, words: bool | None = None) -> list[Block]:
    """Return the blocks of a similarity: both texts, and the pairs of their words if they are scored.

    Args:
        s: The similarity.
        words: Whether tokens are merged to words; None where the texts have words.
    """
    blocks = attribution_blocks(s, words=words)
    if "token" not in s.units.kind:  # words or sentences, as `group` returns them, have no pairs
        return blocks
    if not s.has_text:  # two pictures: no sentence, and no bars of words
        blocks = [block for block in blocks if block.kind in (Header.kind, MediumBlock.kind, Legend.kind)]
        blocks += removals_table(s.verified)
    if s.pairs is None:
        return blocks
    grid = pairs_grid(s)
    if s.has_words:
        blocks.append(_strongest_pairs(grid))
    blocks.append(Fold("Every pair", [grid], opened=True))
    return blocks


def ranking_blocks(results: Sequence[Similarity]) -> list[Block]:
    """Return a table of several results for one text, the most similar first, with their strongest words.

    Args:
        results: The similarities of one text with several.
    """
    rows = []
    for s in sorted(results, key=lambda result: -result.prediction.value):
        # Words of the second text, the most similar first: those that lower the cosine come last.
        words = sorted(s.words(sequence=1), key=lambda word: -word.score) if s.has_words else []
        strongest = tuple(Piece(word.text, number=f"{word.score:+.2f}") for word in words[:NAMED_WORDS])
        cosine = s.prediction.value
        rows.append([cell(f"{cosine:.3f}", cosine), cell(s.text_pair or ""), Cell(strongest)])
    columns = [Column("cosine", numbers=True), Column("text"), Column("rests on")]
    # The first text is the same of all results; there may be none.
    return [Header("", [("compared with", s.text or "") for s in results[:1]]), Table(columns, rows)]


def pairs_grid(s: Similarity) -> Grid:
    """Return the contribution of each pair of words to the cosine, or of tokens or patches, without the biases."""
    token_pairs: Any = s.pairs  # (T1 + 1, T2 + 1), the last row and column are the biases'
    first_names, tokens_of_first = _names_and_tokens(s, 0)
    second_names, tokens_of_second = _names_and_tokens(s, 1)
    rows = np.stack([token_pairs[tokens].sum(0) for tokens in tokens_of_first])  # (W1, T2 + 1)
    scores = np.stack([rows[:, tokens].sum(1) for tokens in tokens_of_second], 1)  # (W1, W2)
    caption = f"What each pair adds to the cosine {s.prediction.value:.3f}"
    return Grid(first_names, second_names, scores, caption, caption)


def _names_and_tokens(s: Similarity, sequence: int) -> tuple[list[str], list[list[int]]]:
    """Return the names of a text's W words, and the indices of each one's tokens along its axis of `pairs`.

    Where there are no words, they are those of its tokens, or of a picture's patches.

    Args:
        s: The similarity.
        sequence: 0 for the first text, 1 for the second.
    """
    units = [unit for unit, of_text in enumerate(s.units.sequence) if of_text == sequence]
    words = s.words(sequence=sequence) if s.has_words else []
    if words:
        return [word.text for word in words], [[units.index(token) for token in word.tokens] for word in words]
    names = [s.unit_names[unit] or s.units.text[unit] for unit in units]
    return names, np.arange(len(units)).reshape(-1, 1).tolist()  # each one's own index


def _strongest_pairs(grid: Grid) -> Table:
    """Return the pairs of words with the largest contributions to the cosine."""
    rows = []
    # The numbers of fields, row by row, the largest score first: pairs below 0 come last, however strong they are.
    by_score: list[int] = np.argsort(-grid.scores, axis=None, kind="stable").tolist()
    for index in by_score[:LISTED_PAIRS]:
        row, column = divmod(index, len(grid.columns))
        score = float(grid.scores[row, column])
        pair_score = cell(f"{score:+.3f}", score, strength=float(grid.strengths[row, column]))
        rows.append([cell(grid.rows[row]), cell(grid.columns[column]), pair_score])
    return Table([Column(""), Column(""), Column("", numbers=True)], rows, "The strongest pairs")
