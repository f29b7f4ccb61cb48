"""The blocks of a picture in the colours of its patches, and of a sound in those of its moments."""

from dataclasses import replace

import numpy as np

from ..results.media import AudioScores, ImageScores
from ..results.schema import FloatArray
from .blocks import Piece
from .charts import Picture, Waveform, number

MOST_PATCHES = 1024
"""Patches of a picture that a drawing has; more are merged with their neighbours."""


MOST_MOMENTS = 120
"""Moments of a sound that a drawing has; neighbours are summed."""


def coarser(image: ImageScores) -> ImageScores:
    """Return the scores of a picture with as many patches as a drawing has at most."""
    return image.coarser(MOST_PATCHES)


def picture_block(
    image: ImageScores, scores: FloatArray, *, signed: bool, first: int | None = None, alone: bool = True
) -> Picture:
    """Return a picture in the colours of its patches.

    Args:
        image: The picture.
        scores: Of its patches, (h, w).
        signed: Whether scores have a sign.
        first: The number of its first patch among the sources of links; None for no links.
        alone: Whether it is the only picture, so that patches need not say of which they are.
    """
    rows, columns = scores.shape
    prefix = "" if alone else f"{image.name}, "
    names = [f"{prefix}row {row + 1}, column {column + 1}" for row in range(rows) for column in range(columns)]
    patches = _pieces(names, scores, signed=signed, first=first)
    return Picture(image.name, image.preview, image.width, image.height, image.boxes, patches)


def binned(audio: AudioScores, most: int = MOST_MOMENTS) -> AudioScores:
    """Return the scores of a sound with as many moments as a drawing has at most.

    Args:
        audio: The sound.
        most: How many.
    """
    first = np.arange(0, len(audio.times), -(-len(audio.times) // most))  # moment of each bin
    times = np.stack([audio.times[first, 0], np.maximum.reduceat(audio.times[:, 1], first)], -1)
    return replace(audio, scores=np.add.reduceat(audio.scores, first, -1), times=times)


def waveform_block(audio: AudioScores, scores: FloatArray, *, signed: bool, first: int | None = None) -> Waveform:
    """Return a sound in the colours of its moments.

    Args:
        audio: The sound.
        scores: Of its moments, (n,).
        signed: Whether scores have a sign.
        first: The number of its first moment among the sources of links; None for no links.
    """
    names = [f"{start:.2f} to {end:.2f} s" for start, end in audio.times.tolist()]
    moments = _pieces(names, scores, signed=signed, first=first)
    return Waveform(audio.name, audio.seconds, audio.loudness, audio.times, moments)


def _pieces(names: list[str], scores: FloatArray, *, signed: bool, first: int | None) -> list[Piece]:
    """Return named parts of a picture or sound in the colours of their scores, each by the largest of all."""
    scale = float(np.abs(scores).max()) or 1.0
    return [
        Piece(
            "",
            score / scale,
            name=name,
            number=number(score, scale, signed=signed),
            source=None if first is None else first + i,
        )
        for i, (name, score) in enumerate(zip(names, scores.ravel().tolist(), strict=True))
    ]
