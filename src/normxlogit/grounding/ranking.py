"""The order of an answer's sentences, most doubtful first, by three things that can be said aloud.

How much of a sentence stands in one sentence of the sources: the share of its words, as `facts.py` looks for words.
How much likelier the sentence makes the passage of the sources that has most of them (`citations/passages.py`). And
whether a number or a name of it stands nowhere. Together they are the *support* of the sentence. It orders sentences
and is no probability: `calibration.py` makes one of it, where somebody has labelled sentences for this reader.
"""

import math
import re
from collections.abc import Iterable

from ..text.characters import UNSPACED
from .facts import ComparedText, WordKind, all_words

PASSAGE_WEIGHT = 0.5
"""What the passage counts, against the words: long sentences gain a passage more than short answers do."""

MISSING_WEIGHT = 0.5
"""What it counts that a number or a name stands nowhere, against the words."""

_PARTS = re.compile(f"[{UNSPACED}]|[^{UNSPACED}]+")
"""What a word is counted as: characters of scripts without spaces, and what stands between them."""


def share_of_words(sentence: str, text: ComparedText) -> float:
    """Return the share of a sentence's words that stand in a text, each word counted once; 0 without words.

    Of scripts without spaces between words, characters are counted.

    Args:
        sentence: A sentence of an answer.
        text: A text of the sources.
    """
    # By their texts: a word that comes twice counts once.
    kinds: dict[str, WordKind] = {part: word.kind for word in all_words(sentence) for part in _PARTS.findall(word.text)}
    return sum(text.has(part, kind) for part, kind in kinds.items()) / len(kinds) if kinds else 0.0


def share_in_one(sentence: str, source_sentences: Iterable[ComparedText]) -> float:
    """Return the largest share of a sentence's words that stand in one sentence of the sources; 0 without any.

    Args:
        sentence: A sentence of an answer.
        source_sentences: The sentences of the sources.
    """
    return max((share_of_words(sentence, text) for text in source_sentences), default=0.0)


def missing_names(sentence: str, text: ComparedText) -> int:
    """Return how many numbers and names of a sentence do not stand in a text.

    Args:
        sentence: A sentence of an answer.
        text: All sources and the question as one text.
    """
    named = [word for word in all_words(sentence) if word.kind in ("number", "name")]
    return sum(not text.has(word.text, word.kind) for word in named)


def support(shared: float, passage_gain: float, missing: int) -> float:
    """Return the number by which sentences are ordered; higher is better supported.

    It is the share of the words that stand there, and half the share of the passage's surprise that the sentence takes
    away from a token, 1 - exp(-gain), less a half if a number or a name stands nowhere.

    Args:
        shared: The share of a sentence's words in one sentence of the sources, see `share_in_one`.
        passage_gain: How much likelier it makes a passage, in nats a token, see `passages.passage_gains`.
        missing: How many of its numbers and names stand nowhere, see `missing_names`.
    """
    # However many are missing: one is enough to doubt a sentence.
    return shared + (1 - math.exp(-passage_gain)) * PASSAGE_WEIGHT - (missing > 0) * MISSING_WEIGHT
