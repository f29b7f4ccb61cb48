"""The blocks of the similarity of two texts, and of a ranking."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...results.attribution import Attribution
from ...results.storage.schema import FloatArray
from ...results.units.words import UnitScore
from ..blocks import Block, Cell, Column, Fold, Header, Piece, Table, cell
from ..charts import Grid, Legend
from .media import MediumBlock
from .text import attribution_blocks

STRONGEST = 8
"""Pairs of words that are listed."""

NAMED = 3
"""Words that a row of a ranking names."""

STATES = "The cosine of the words' own states"
"""What the second table of pairs shows."""


def similarity_blocks(s: Attribution) -> list[Block]:
    """Return what drawings of a similarity consist of: both texts and, where they were asked for, pairs of words."""
    blocks = attribution_blocks(s)
    if not s.has_text:  # two pictures: no sentence, and no word with a bar
        kept = (Header.kind, MediumBlock.kind, Legend.kind)
        blocks = [block for block in blocks if block.kind in kept]
    if s.pairs is None:
        return blocks
    strongest = [_strongest(s)] if s.has_words else []
    states = [Fold(STATES, [_states_grid(s)])] if s.state_cosines is not None else []
    return [*blocks, *strongest, Fold("Every pair", [pairs_grid(s)], opened=True), *states]


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


def pairs_grid(s: Attribution) -> Grid:
    """Return what each pair of words adds to the cosine; pairs of tokens where words cannot be told."""
    rows, columns = _words(s, 0), _words(s, 1)
    table = word_pairs(s)
    caption = f"What each pair adds to the cosine {cosine(s):.3f}"
    return Grid([row.text for row in rows], [column.text for column in columns], table, caption, caption)


def word_pairs(s: Attribution) -> FloatArray:
    """Return the pairs summed to words, special tokens and biases left out: (first's words, second's words).

    Args:
        s: A similarity with `pairs`.
    """
    pairs: Any = s.pairs  # (T1 + 1, T2 + 1)
    first = len(pairs) - 1  # T1
    rows = np.stack([pairs[list(word.tokens)].sum(0) for word in _words(s, 0)])  # (W1, T2 + 1)
    columns = [[token - first for token in word.tokens] for word in _words(s, 1)]
    return np.stack([rows[:, tokens].sum(1) for tokens in columns], 1)  # (W1, W2)


def _words(s: Attribution, sequence: int) -> list[UnitScore]:
    """Return the words of a text; its tokens and patches where words cannot be told."""
    if s.has_words:
        return s.words(sequence=sequence)
    first = len(s.pairs if s.pairs is not None else ()) - 1  # T1
    units = range(first) if sequence == 0 else range(first, len(s.tokens))
    return [UnitScore(s.tokens[i], (i,), 0.0) for i in units]


def _strongest(s: Attribution) -> Table:
    """Return the pairs of words that add most to the cosine."""
    table, first, second = word_pairs(s), _words(s, 0), _words(s, 1)  # (W1, W2)
    largest = float(np.abs(table).max(initial=0.0)) or 1.0
    rows = []
    for index in np.argsort(-table, axis=None, kind="stable")[:STRONGEST]:
        i, j = divmod(int(index), len(second))
        score = float(table[i, j])
        rows.append([cell(first[i].text), cell(second[j].text), cell(f"{score:+.3f}", score, strength=score / largest)])
    return Table([Column(""), Column(""), Column("", numbers=True)], rows, "The strongest pairs")


def _states_grid(s: Attribution) -> Grid:
    """Return the largest cosine of the own states of the tokens of each pair of words."""
    states: Any = s.state_cosines  # (T1, T2)
    rows, columns = _words(s, 0), _words(s, 1)
    tokens = [[token - len(states) for token in column.tokens] for column in columns]
    table = np.array([[states[np.ix_(row.tokens, column)].max() for column in tokens] for row in rows], np.float32)
    return Grid([row.text for row in rows], [column.text for column in columns], table, STATES, STATES)
