"""Pictures and sounds beside generated words: what each generated token rests on of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..errors import DataError
from .base import require
from .schema import FloatArray, Index, freeze
from .words import Word

if TYPE_CHECKING:
    from typing_extensions import Self

PREVIEW = re.compile(r"(data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*)?")
"""A picture that a page shows without asking anybody for it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MediaScores:
    """The base of scores of parts that are no words.

    Attributes:
        scores: float32, (G, ...): the parts of every generated token, in the shape of `geometry`; with layers
            (G, L, ...).
        name: What drawings call it, such as the name of its file.
        preview: What drawings show it by: of a picture a smaller copy, as a data URI; empty for none.
        tokens: The tokens of the text that stand for it.
    """

    geometry: ClassVar[str]
    """The field that says where each part is: one axis more than the parts have."""

    scores: FloatArray
    name: str
    preview: str = ""
    tokens: tuple[Index, ...] = ()

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        freeze(self)

    @property
    def total(self) -> FloatArray:
        """The sum over the parts, (G,), with layers (G, L)."""
        parts: int = getattr(self, self.geometry).ndim - 1
        total: FloatArray = self.scores.sum(tuple(range(-parts, 0)))
        return total

    @property
    def areas(self) -> FloatArray:
        """Left, top, right and bottom of each part as shares of the whole, (parts, 4)."""
        raise NotImplementedError

    def coarser(self, most: int) -> "Self":
        """Return the same with fewer parts for drawings: neighbours are merged until there are at most `most`."""
        raise NotImplementedError

    def validate(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError if the parts do not fit together, or to what is explained.

        Args:
            shape: The axes of the scores before those of the parts.
        """
        places: FloatArray = getattr(self, self.geometry)
        require(places.ndim > 1, f"{self.geometry}: not a place for each part")
        expected = (*shape, *places.shape[:-1])
        require(self.scores.shape == expected, f"scores of {self.name!r}: not of shape {expected}")


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageScores(MediaScores):
    """Scores of the patches of one picture.

    Attributes:
        scores: float32, (G, h, w), with layers (G, L, h, w).
        boxes: float32, (h, w, 4): left, top, right and bottom of every patch, in pixels of the picture that was given.
        width: Width of that picture in pixels.
        height: Its height.
    """

    geometry: ClassVar = "boxes"

    boxes: FloatArray
    width: Index
    height: Index

    def validate(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError if a patch has no box of the picture."""
        super().validate(shape)
        require(self.boxes.ndim == 3 and self.boxes.shape[-1] == 4, "boxes: not four numbers for each patch")
        require(bool(PREVIEW.fullmatch(self.preview)), "preview: not a picture")
        require(self.width > 0 and self.height > 0, "width, height: not of a picture")

    @property
    def areas(self) -> FloatArray:
        """Left, top, right and bottom of each patch as shares of the picture, (h * w, 4)."""
        sides = np.array([self.width, self.height] * 2, np.float32)
        areas: FloatArray = self.boxes.reshape(-1, 4) / sides
        return areas

    def coarser(self, most: int) -> "Self":
        """Return the same with fewer patches for drawings: neighbours are merged until there are at most `most`."""
        result = self
        while result.boxes.shape[0] * result.boxes.shape[1] > most:
            result = result._halved()
        return result

    def _halved(self) -> "Self":
        rows, columns = (range(0, size, 2) for size in self.boxes.shape[:2])
        scores = np.add.reduceat(np.add.reduceat(self.scores, rows, -2), columns, -1)
        low = np.minimum.reduceat(np.minimum.reduceat(self.boxes[..., :2], rows, 0), columns, 1)
        high = np.maximum.reduceat(np.maximum.reduceat(self.boxes[..., 2:], rows, 0), columns, 1)
        return replace(self, scores=scores, boxes=np.concatenate([low, high], -1))


@dataclass(frozen=True, eq=False, kw_only=True)
class AudioScores(MediaScores):
    """Scores of the moments of one sound.

    Attributes:
        scores: float32, (G, n), with layers (G, L, n).
        times: float32, (n, 2): beginning and end of every moment, in seconds.
        seconds: Length of the sound.
        loudness: float32: its course, from 0 to 1, for drawings.
    """

    geometry: ClassVar = "times"

    times: FloatArray
    seconds: float
    loudness: FloatArray

    @property
    def areas(self) -> FloatArray:
        """Left, top, right and bottom of each moment as shares of the sound, (n, 4): all are as high as it."""
        start, end = self.times.T / np.float32(self.seconds)  # (n,) each
        return np.stack([start, np.zeros_like(start), end, np.ones_like(end)], -1)

    def coarser(self, most: int) -> "Self":
        """Return the same with fewer moments for drawings: neighbours are summed until there are at most `most`."""
        first = np.arange(0, len(self.times), -(-len(self.times) // most))  # moment of each bin
        times = np.stack([self.times[first, 0], np.maximum.reduceat(self.times[:, 1], first)], -1)
        return replace(self, scores=np.add.reduceat(self.scores, first, -1), times=times)

    def validate(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError if a moment has no time."""
        super().validate(shape)
        require(self.times.ndim == 2 and self.times.shape[-1] == 2, "times: not two numbers for each moment")


@dataclass(frozen=True, eq=False)
class WordMoments:
    """One word and the moments that it rests on.

    Attributes:
        word: The word.
        start: Where the moment with the largest score begins, in seconds.
        end: Where it ends.
        scores: float32, (n,): the sum of its tokens' scores at each moment.
    """

    word: str
    start: float
    end: float
    scores: FloatArray


def word_moments(audio: AudioScores, words: Sequence[Word], prompt_tokens: int) -> list[WordMoments]:
    """Sum the scores of moments over the tokens of each generated word.

    Args:
        audio: The moments.
        words: The words of prompt and completion.
        prompt_tokens: How many tokens were not generated.
    """
    scores = audio.scores  # (G, n)
    if scores.ndim != 2:
        raise DataError("the result has several layers; take one with select(layer=...)")
    heard = []
    for word in words:
        rows = [token - prompt_tokens for token in word.tokens if token >= prompt_tokens]
        if rows:
            summed = scores[rows].sum(0)  # (n,)
            start, end = audio.times[int(np.argmax(summed))].tolist()
            heard.append(WordMoments(word.text, start, end, summed))
    return heard
