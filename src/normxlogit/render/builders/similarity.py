"""The blocks of the similarity of two texts, and of a ranking."""

from collections.abc import Sequence

import numpy as np

from ...results.attribution import Attribution, Pairs
from ...results.storage.schema import FloatArray
from ..blocks import Block, Cell, Column, Fold, Header, Piece, Table, cell
from ..charts import Grid, Legend
from .media import MediumBlock
from .text import attribution_blocks

STRONGEST = 8
"""Pairs of words that are listed."""

NAMED = 3
"""Words that a row of a ranking names."""


def similarity_blocks(s: Attribution) -> list[Block]:
    """Return what drawings of a similarity consist of: both texts and, where they were asked for, pairs of words."""
    blocks = attribution_blocks(s)
    if not s.has_text:  # two pictures: no sentence, and no word with a bar
        kept = (Header.kind, MediumBlock.kind, Legend.kind)
        blocks = [block for block in blocks if block.kind in kept]
    if s.pairs is None:
        return blocks
    states = Fold("The cosine of the words' own states", [_states_grid(s, s.pairs)])
    strongest = [_strongest(s, s.pairs)] if s.has_words else []
    return [*blocks, *strongest, Fold("Every pair", [pairs_grid(s, s.pairs)], opened=True), states]


def ranking_blocks(results: Sequence[Attribution]) -> list[Block]:
    """Return a list of several results for one text, the most similar first, with the words that each rests on."""
    rows = []
    for s in sorted(results, key=lambda result: -cosine(result)):
        words = sorted(s.words(sequence=1), key=lambda word: -word.score) if s.has_words else []
        strongest = tuple(Piece(word.text, number=f"{word.score:+.2f}") for word in words[:NAMED])
        rows.append([cell(f"{cosine(s):.3f}", cosine(s)), cell(s.text_pair or ""), Cell(strongest)])
    columns = [Column("cosine", numbers=True), Column("text"), Column("rests on")]
    return [Header("", [("compared with", s.text or "") for s in results[:1]]), Table(columns, rows)]


def cosine(s: Attribution) -> float:
    """Return the cosine of the two vectors."""
    return s.predictions[0].value


def pairs_grid(s: Attribution, pairs: Pairs) -> Grid:
    """Return what each pair of words adds to the cosine; pairs of tokens where words cannot be told."""
    table = word_pairs(s, pairs) if s.has_words else pairs.scores[:-1, :-1]
    return _grid(f"What each pair adds to the cosine {cosine(s):.3f}", table, _names(s, pairs))


def word_pairs(s: Attribution, pairs: Pairs) -> FloatArray:
    """Return the pairs summed to words, special tokens and biases left out: (first's words, second's words)."""
    first = len(pairs.state_cosines)  # T1
    rows = np.stack([pairs.scores[list(word.tokens)].sum(0) for word in s.words(sequence=0)])  # (W1, T2 + 1)
    columns = [[token - first for token in word.tokens] for word in s.words(sequence=1)]
    return np.stack([rows[:, tokens].sum(1) for tokens in columns], 1)  # (W1, W2)


def _strongest(s: Attribution, pairs: Pairs) -> Table:
    """Return the pairs of words that add most to the cosine."""
    table, (first, second) = word_pairs(s, pairs), _names(s, pairs)  # (W1, W2)
    largest = float(np.abs(table).max(initial=0.0)) or 1.0
    rows = []
    for index in np.argsort(-table, axis=None, kind="stable")[:STRONGEST]:
        i, j = divmod(int(index), len(second))
        score = float(table[i, j])
        rows.append([cell(first[i]), cell(second[j]), cell(f"{score:+.3f}", score, strength=score / largest)])
    return Table([Column(""), Column(""), Column("", numbers=True)], rows, "The strongest pairs")


def _states_grid(s: Attribution, pairs: Pairs) -> Grid:
    table = pairs.state_cosines  # (T1, T2)
    if s.has_words:
        columns = [[token - len(table) for token in word.tokens] for word in s.words(sequence=1)]
        rows = [list(word.tokens) for word in s.words(sequence=0)]
        table = np.array([[table[np.ix_(row, column)].max() for column in columns] for row in rows])  # (W1, W2)
    return _grid("The cosine of the words' own states", table.astype(np.float32), _names(s, pairs))


def _names(s: Attribution, pairs: Pairs) -> tuple[list[str], list[str]]:
    if s.has_words:
        return [word.text for word in s.words(sequence=0)], [word.text for word in s.words(sequence=1)]
    first = len(pairs.state_cosines)
    return list(s.tokens[:first]), list(s.tokens[first:])


def _grid(caption: str, table: FloatArray, names: tuple[list[str], list[str]]) -> Grid:
    return Grid(*names, table, caption, caption)
