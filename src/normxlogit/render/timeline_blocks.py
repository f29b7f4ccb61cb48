"""The blocks of a sound beside the words heard in it: which moments each word rests on."""

import numpy as np

from ..results.characters import visible
from ..results.generation import GenerationAttribution
from ..results.media import AudioScores
from ..results.moments import WordMoments
from .blocks import Block, Column, Table, cell
from .charts import Grid

__all__ = ["timeline_blocks"]

BINS = 48
"""Columns of a timeline; neighbouring moments are summed."""


def timeline_blocks(g: GenerationAttribution) -> list[Block]:
    """Return what drawings show of the sounds of a result: the strongest moment of each word, and a timeline."""
    if g.layers is not None:
        return []
    blocks: list[Block] = []
    for index, audio in enumerate(g.audio):
        words = g.moments(index)
        if words:
            blocks += [_strongest(audio, words), _timeline(audio, words)]
    return blocks


def _strongest(audio: AudioScores, words: list[WordMoments]) -> Table:
    rows = []
    for word in words:
        positive = word.scores.clip(min=0)  # (n,)
        share = float(positive.max(initial=0) / max(positive.sum(), 1e-12))
        moment = cell(f"{word.start:.2f} to {word.end:.2f} s", word.start)
        rows.append([cell(visible(word.word)), moment, cell(f"{100 * share:.0f}%", share, strength=share)])
    columns = [Column("word"), Column("strongest moment", numbers=True), Column("of its positive sum", numbers=True)]
    return Table(columns, rows, f"When {visible(audio.name)} supports each word")


def _timeline(audio: AudioScores, words: list[WordMoments]) -> Grid:
    """Return words x time, with the loudness of the sound as the first row."""
    count = min(BINS, len(audio.times))
    places = np.arange(len(audio.times)) * count // len(audio.times)  # (n,)
    table = np.zeros((len(words), count), np.float32)
    for row, word in enumerate(words):
        np.add.at(table[row], places, word.scores)
    strengths = table / np.maximum(np.abs(table).max(1, keepdims=True, initial=0), 1e-12)
    loud = np.arange(len(audio.loudness)) * count // max(len(audio.loudness), 1)
    course = np.zeros((1, count), np.float32)
    np.maximum.at(course[0], loud, audio.loudness)
    starts = [float(audio.times[np.argmax(places == column)][0]) for column in range(count)]
    return Grid(
        rows=["loudness", *(visible(word.word) for word in words)],
        columns=[f"{start:.2f}" for start in starts],
        scores=np.concatenate([course, table]),
        strengths=np.concatenate([course, strengths]),
        caption=f"What each word rests on, over the seconds of {visible(audio.name)}",
        label="each word by its own largest score",
        relative=True,
    )
