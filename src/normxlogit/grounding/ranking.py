"""The order of an answer's sentences, most doubtful first, by two measurements that can be said aloud.

How much of a sentence stands in one sentence of the sources: of its long words and numbers, the share that stand there.
And how much likelier the sentence makes the passage of the sources that has most of them (`citations/passages.py`).
Their sum is the *support* of the sentence. It orders sentences and is no probability: `calibration.py` makes one of it,
where somebody has labelled sentences for this reader.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..text.boundaries import sentence_spans
from ..text.characters import UNSPACED
from ..text.same import comparable

LONG = 4
"""Least letters of a word that counts."""

STEM = 5
"""Words that begin with the same characters, so many, count as one word in several forms."""

PASSAGE_WEIGHT = 0.5
"""What the passage counts, against the words: long sentences gain a passage more than short answers do."""


class SharedWords(NamedTuple):
    """The sentence of the sources that has most of a sentence's long words and numbers."""

    source: int  # the index of the source's text; -1 if the sources hold no sentence
    start: int  # the first character of its sentence there
    end: int  # one past the last
    share: float  # of the words, those that stand in it; 0 if there are none


def content_words(text: str) -> frozenset[str]:
    """Return a text's long words, and those without case, such as numbers, as stems; all its words if it has none."""
    long = (word[:STEM] for word in _words(text) if len(word) >= LONG or word.upper() == word.lower())
    return frozenset(long) or stems_in(text)


def stems_in(text: str) -> frozenset[str]:
    """Return the beginnings of all words of a text, by which their forms are compared."""
    return frozenset(word[:STEM] for word in _words(text))


def share_there(words: frozenset[str], text: str) -> float:
    """Return the share of some stems that stand in a text; 0 of none."""
    return len(words & stems_in(text)) / len(words) if words else 0.0


def shared_words(sentence: str, sources: Sequence[str]) -> SharedWords:
    """Return the sentence of the sources that has most of a sentence's long words; of several the first.

    Args:
        sentence: A sentence of an answer.
        sources: The texts of the sources, such as whole documents.
    """
    words = content_words(sentence)
    places = [(source, *span) for source, text in enumerate(sources) for span in sentence_spans(text)]
    shared = (SharedWords(source, a, b, share_there(words, sources[source][a:b])) for source, a, b in places)
    return max(shared, key=lambda of_sentence: of_sentence.share, default=SharedWords(-1, 0, 0, 0.0))


def support(shared: float, passage_gain: float) -> float:
    """Return the number by which sentences are ordered; higher is better supported.

    It is the share of the words that stand there, and half the share of the passage's surprise that the sentence takes
    away from a token, 1 - exp(-gain).

    Args:
        shared: The share of a sentence's long words in one sentence of the sources, `SharedWords.share`.
        passage_gain: How much likelier it makes a passage, in nats a token, `PassageGain.nats`.
    """
    return shared + (1 - math.exp(-passage_gain)) * PASSAGE_WEIGHT


def most_doubtful_first(supports: Iterable[float]) -> list[int]:
    """Return the places of sentences in the order of their support, the lowest first."""
    values = list(supports)
    return sorted(range(len(values)), key=values.__getitem__)


def _words(text: str) -> list[str]:
    """Return the words of a text in the form in which texts are compared; of scripts without spaces, characters."""
    return _WORD.findall(comparable(text).text)


_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
