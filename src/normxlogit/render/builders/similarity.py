"""The blocks of the similarity of two texts, and of a ranking."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...results.attribution import Attribution
from ...results.storage.schema import FloatArray
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
    """Return what each pair of words adds to the cosine; pairs of tokens or patches where words cannot be told."""
    return _grid(s, word_pairs(s), f"What each pair adds to the cosine {cosine(s):.3f}")


def word_pairs(s: Attribution) -> FloatArray:
    """Return the pairs summed to words, biases left out: (first's words, second's words).

    Args:
        s: A similarity with `pairs`.
    """
    pairs: Any = s.pairs  # (T1 + 1, T2 + 1)
    rows = np.stack([pairs[tokens].sum(0) for _, tokens in _words(s, 0)])  # (W1, T2 + 1)
    return np.stack([rows[:, tokens].sum(1) for _, tokens in _words(s, 1)], 1)  # (W1, W2)


def _words(s: Attribution, sequence: int) -> list[tuple[str, list[int]]]:
    """Return the words of a text, or the tokens and patches where there are none, each with its places in `pairs`."""
    units = [i for i, of in enumerate(s.units.sequence) if of == sequence]
    places = {unit: place for place, unit in enumerate(units)}
    words = s.words(sequence=sequence) if s.has_words else []
    named = [(word.text, [places[token] for token in word.tokens]) for word in words]
    return named or [(s.units.text[unit], [place]) for unit, place in places.items()]


def _strongest(s: Attribution) -> Table:
    """Return the pairs of words that add most to the cosine."""
    table, first, second = word_pairs(s), _words(s, 0), _words(s, 1)  # (W1, W2)
    largest = float(np.abs(table).max(initial=0.0)) or 1.0
    rows = []
    for index in np.argsort(-table, axis=None, kind="stable")[:STRONGEST]:
        i, j = divmod(int(index), len(second))
        score = float(table[i, j])
        rows.append([cell(first[i][0]), cell(second[j][0]), cell(f"{score:+.3f}", score, strength=score / largest)])
    return Table([Column(""), Column(""), Column("", numbers=True)], rows, "The strongest pairs")


def _states_grid(s: Attribution) -> Grid:
    """Return the largest cosine of the own states of the tokens of each pair of words."""
    states: Any = s.state_cosines  # (T1, T2)
    first, second = _words(s, 0), _words(s, 1)
    table = [[states[np.ix_(row, column)].max() for _, column in second] for _, row in first]  # (W1, W2)
    return _grid(s, np.array(table, np.float32), STATES)


def _grid(s: Attribution, table: FloatArray, caption: str) -> Grid:
    rows, columns = ([name for name, _ in _words(s, sequence)] for sequence in (0, 1))
    return Grid(rows, columns, table, caption, caption)
