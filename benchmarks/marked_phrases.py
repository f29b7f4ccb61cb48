"""Phrases of a sentence that hold a word which stands in no source.

People who mark what a text does not support mark phrases, "in the 16th century", and not single words. A phrase is the
words that stand in no source, the short words before them, and what lies between two of them that are close together.
So a phrase may hold words that stand in a source; that they are missing is said of none of them.
"""

from collections.abc import Sequence
from itertools import pairwise

SHORT = 3
"""Most letters of a word that belongs to the word after it, such as "in" and "the"."""

CLOSE = 2
"""Most words between two words of one phrase."""


def in_phrases(words: Sequence[str], is_missing: Sequence[bool]) -> list[bool]:
    """Return whether each word of a sentence is in a phrase that holds a word which stands in no source.

    Args:
        words: The words of the sentence, and its signs, in their order.
        is_missing: Whether each of them stands in no source.
    """
    return _joined(_with_short_words_before(words, is_missing))


def _with_short_words_before(words: Sequence[str], is_missing: Sequence[bool]) -> list[bool]:
    """Add the short words that stand directly before a word of a phrase."""
    is_in_phrase = list(is_missing)
    for place in range(len(words) - 2, -1, -1):
        is_short = words[place].isalnum() and len(words[place]) <= SHORT
        is_in_phrase[place] |= is_short and is_in_phrase[place + 1]
    return is_in_phrase


def _joined(is_in_phrase: Sequence[bool]) -> list[bool]:
    """Join the phrases between which few words lie."""
    joined = list(is_in_phrase)
    places = [place for place, is_in in enumerate(is_in_phrase) if is_in]
    for place, following in pairwise(places):
        if following - place <= CLOSE + 1:
            joined[place:following] = [True] * (following - place)
    return joined
