"""Words that a model heard, each with the moments of the sound that it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from .media import AudioScores
from .schema import FloatArray
from .words import Word


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
