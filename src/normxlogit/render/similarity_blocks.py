"""The blocks of the similarity of two texts, and of a ranking."""

from collections.abc import Sequence

import numpy as np

from ..results.schema import FloatArray
from ..results.similarity import Similarity
from .blocks import Block, Cell, Column, Fold, Header, Piece, Table, cell
from .charts import Grid, Legend
from .media_blocks import coarser, media_block
from .text_blocks import attribution_blocks

STRONGEST = 8
"""Pairs of words that are listed."""

NAMED = 3
"""Words that a row of a ranking names."""


def similarity_blocks(s: Similarity) -> list[Block]:
    """Return what drawings of a similarity consist of: both texts and, where they were asked for, pairs of words."""
    pictures = [media_block(i, i.scores, signed=s.signed) for i in map(coarser, s.images)]
    header, *others = attribution_blocks(s)
    if pictures and not (s.text or s.text_pair):  # two pictures: no sentence, and no word with a bar
        others = [block for block in others if isinstance(block, Legend)]
    blocks = [header, *pictures, *others]
    if s.matrix is None or s.state_cosine_matrix is None:
        return blocks
    states = Fold("The cosine of the words' own states", [_states_grid(s)])
    return [*blocks, *([_pairs(s)] if s.has_words else []), Fold("Every pair", [pairs_grid(s)], opened=True), states]


def ranking_blocks(results: Sequence[Similarity]) -> list[Block]:
    """Return a list of several results for one text, the most similar first, with the words that each rests on."""
    rows = []
    for s in sorted(results, key=lambda result: -result.cosine):
        words = sorted(s.words_of(1), key=lambda word: -word.score) if s.has_words else []
        strongest = tuple(Piece(word.text, number=f"{word.score:+.2f}") for word in words[:NAMED])
        rows.append([cell(f"{s.cosine:.3f}", s.cosine), cell(s.text_pair or ""), Cell(strongest)])
    columns = [Column("cosine", numbers=True), Column("text"), Column("rests on")]
    return [Header("", [("compared with", s.text or "") for s in results[:1]]), Table(columns, rows)]


def pairs_grid(s: Similarity) -> Grid:
    """Return what each pair of words adds to the cosine; pairs of tokens where words cannot be told."""
    table = s.word_matrix() if s.has_words else np.asarray(s.matrix)[:-1, :-1]
    return _grid(f"What each pair adds to the cosine {s.cosine:.3f}", table, _names(s))


def _pairs(s: Similarity) -> Table:
    """Return the pairs of words that add most to the cosine."""
    table, (first, second) = s.word_matrix(), _names(s)  # (W1, W2)
    most = float(np.abs(table).max(initial=0.0)) or 1.0
    rows = []
    for index in np.argsort(-table, axis=None, kind="stable")[:STRONGEST]:
        i, j = divmod(int(index), len(second))
        score = float(table[i, j])
        rows.append([cell(first[i]), cell(second[j]), cell(f"{score:+.3f}", score, strength=score / most)])
    return Table([Column(""), Column(""), Column("", numbers=True)], rows, "The strongest pairs")


def _states_grid(s: Similarity) -> Grid:
    table = np.asarray(s.state_cosine_matrix)  # (T1, T2)
    if s.has_words:
        columns = [[token - s.first_tokens for token in word.tokens] for word in s.words_of(1)]
        rows = [list(word.tokens) for word in s.words_of(0)]
        table = np.array([[table[np.ix_(row, column)].max() for column in columns] for row in rows])  # (W1, W2)
    return _grid("The cosine of the words' own states", table.astype(np.float32), _names(s))


def _names(s: Similarity) -> tuple[list[str], list[str]]:
    if s.has_words:
        return [word.text for word in s.words_of(0)], [word.text for word in s.words_of(1)]
    return list(s.tokens[: s.first_tokens]), list(s.tokens[s.first_tokens :])


def _grid(caption: str, table: FloatArray, names: tuple[list[str], list[str]]) -> Grid:
    return Grid(*names, table, caption, caption)
