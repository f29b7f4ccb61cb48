"""A sentence of an answer beside the source that it is compared with, and the words in which the two differ."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ..results.storage.schema import Index
from ..text.characters import Span
from .facts import ComparedText, Facts, StatedWord, all_words

Places = tuple[tuple[Index, Index], ...]
"""Spans of characters in the text of prompt and answer."""


class Comparison(NamedTuple):
    """A sentence beside a source.

    Attributes:
        source: The place of the source among all.
        words: The words of the sentence that the source does not have.
        source_words: The words of the source that the sentence does not have.
    """

    source: Index
    words: Places
    source_words: Places


def compared(text: str, sentence: Span, source: int, span: Span) -> Comparison:
    """Return a sentence beside a source, with the words in which they differ.

    Args:
        text: The prompt with the answer.
        sentence: The sentence, in characters of it.
        source: The place of the source among all.
        span: The source, in characters of the text.
    """
    return Comparison(source, _only_in(text, sentence, span), _only_in(text, span, sentence))


def _only_in(text: str, span: Span, other: Span) -> Places:
    """Return the words of a part of a text that another part does not have."""
    first, end = span
    other_text, own = ComparedText(text[slice(*other)]), text[first:end]
    differing = [(a, b) for a, b, kind in all_words(own) if not other_text.has(own[a:b], kind)]
    return tuple((first + a, first + b) for a, b in differing)


def nearest_source(facts: Facts, count: int) -> int | None:
    """Return the place of the source that has most of a sentence's words; None if none has any.

    A word counts by how few of the sources have it: log((1 + n) / how many). Numbers count only in a sentence without
    other words: a source that says the same of something else may have the number.

    Args:
        facts: The facts of the sentence.
        count: How many sources there are, n.
    """
    words = [word for word in facts.words if word.kind != "number" and word.sources] or facts.words
    weights = defaultdict[int, float](float)
    for word in words:
        for source in word.sources:
            weights[source] += math.log((1 + count) / len(word.sources))
    return min(weights, key=lambda source: (-weights[source], source), default=None)


def stating_sources(facts: Facts, count: int, first: int | None = None) -> tuple[int, ...] | None:
    """Return the sources that have what a sentence states, the nearest one first; None if they lack a number or a name.

    Where the nearest source lacks a number that the source has on which the sentence rests most, that one takes its
    place. Another number stands in a source that has a word of the sentence which the first one lacks; a name stands in
    any source. Numbers and names of the question are no statements.

    Args:
        facts: The facts of the sentence.
        count: How many sources there are.
        first: The source on which the sentence rests most, as it was measured.
    """
    stated = [word for word in facts.words if word.kind != "word" and not word.elsewhere]
    base = _base_source(facts, [word for word in stated if word.kind == "number"], count, first)
    if base is None:
        return None
    stating, adding = [base], _adding_sources(facts, base)
    for word in stated:
        if not set(word.sources) & set(stating):
            having = [source for source in word.sources if word.kind == "name" or source in adding]
            if not having:
                return None
            stating.append(having[0])
    return tuple(stating)


def _base_source(facts: Facts, numbers: Sequence[StatedWord], count: int, first: int | None) -> int | None:
    """Return the nearest source, or the one that a sentence rests on most where it has the numbers that this lacks."""
    nearest = nearest_source(facts, count)
    lacking = [word for word in numbers if nearest not in word.sources]
    has_them = bool(lacking) and all(first in word.sources for word in lacking)
    return first if nearest is not None and has_them else nearest


def _adding_sources(facts: Facts, base: int) -> set[int]:
    """Return the sources that have a word of a sentence, and not only a number, which a source lacks."""
    words = [word for word in facts.words if word.kind != "number" and base not in word.sources]
    return {source for word in words for source in word.sources}
