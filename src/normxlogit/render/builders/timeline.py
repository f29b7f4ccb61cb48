"""The blocks of a sound beside the words heard in it: which moments each word rests on."""

from dataclasses import replace

import numpy as np

from ...results.attribution import Attribution
from ...results.units.characters import direction, quoted, visible
from ...results.units.media import MediumScores, WordMoments, word_moments
from ..blocks import Block, Column, Fold, Links, Piece, Sentence, Sentences, Table, cell
from ..charts import Grid
from ..describe import Facts
from .media import MOST_MOMENTS, media_block
from .verification import removals_table

BINS = 48
"""Columns of a timeline; neighbouring moments are summed."""


HINT = (
    "Point at a word (the bold ones) to colour the moments that it rests on, or at a moment for its words; "
    "click to hold it. Keys: left and right arrow, Escape."
)


def heard_blocks(g: Attribution, described: Facts) -> list[Block]:
    """Return what drawings show of words that rest on a sound alone."""
    audio = g.audio[0].coarser(MOST_MOMENTS)
    start = g.prompt_tokens or 0
    words = [word for word in g.words() if word.tokens[-1] >= start]
    moments = word_moments(audio, words, start)
    text = g.text or ""
    pieces, drawn_to = [], len(g.prompt or "")
    for part, word in enumerate(words):
        pieces += [
            Piece(text[drawn_to : word.start] if part else ""),
            Piece(word.text, 0.0, "strong", quoted(visible(word.text)), part=part),
        ]
        drawn_to = word.end
    pieces.append(Piece(text[drawn_to:]))
    data = {"signed": g.signed, "scores": [[float(str(score)) for score in word.scores] for word in moments]}
    return [
        Sentences([Sentence("transcript", [(direction(text), pieces)])]),
        media_block(audio, audio.scores.sum(0), signed=g.signed, first=0),
        *([Links(data, HINT, described.negative or "less than 0")] if words else []),
        *timeline_blocks(g),
        *removals_table(g.verified),
    ]


def timeline_blocks(g: Attribution) -> list[Block]:
    """Return what drawings list of the sounds of a result: each word's strongest moment, and all of them over time."""
    if g.layers is not None:
        return []
    blocks: list[Block] = []
    for index, audio in enumerate(g.audio):
        words = g.moments(index)
        if words:
            blocks += [_strongest(audio, words), Fold("Every word over time", [_over_time(audio, words)])]
    return blocks


def _strongest(audio: MediumScores, words: list[WordMoments]) -> Table:
    rows = []
    for word in words:
        positive = word.scores.clip(min=0)  # (n,)
        share = float(positive.max(initial=0) / max(positive.sum(), 1e-12))
        moment = cell(f"{word.start:.2f} to {word.end:.2f} s", word.start)
        rows.append([cell(visible(word.word)), moment, cell(f"{100 * share:.0f}%", share, strength=share)])
    columns = [Column("word"), Column("strongest moment", numbers=True), Column("of its positive sum", numbers=True)]
    return Table(columns, rows, f"When {visible(audio.name)} supports each word")


def _over_time(audio: MediumScores, words: list[WordMoments]) -> Grid:
    """Return words x time."""
    coarse = replace(audio, scores=np.stack([word.scores for word in words])).coarser(BINS)
    return Grid(
        rows=[visible(word.word) for word in words],
        columns=[f"{start:.2f}" for start in coarse.times[:, 0].tolist()],
        scores=coarse.scores,
        caption=f"What each word rests on, over the seconds of {visible(audio.name)}",
        label="each word by its own largest score",
        relative=True,
    )
