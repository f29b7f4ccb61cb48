"""A sentence of an answer beside the source that it is compared with, and the words in which the two differ."""

from typing import NamedTuple

from ..results.storage.schema import Index
from ..text.characters import Span
from .facts import ComparedText, all_words

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
