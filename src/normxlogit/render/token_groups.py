"""Where tokens stand in the texts that are drawn."""

from collections.abc import Sequence
from typing import NamedTuple

from ..results.attribution import Attribution
from ..results.storage.schema import Indices
from ..text.characters import Span

_WORD_STARTS = "Ġ▁"
"""Marks of tokens that begin a word."""


class TokenGroup(NamedTuple):
    """Tokens that are drawn as one, with the start and end of their text; (0, 0) for tokens without characters."""

    tokens: Indices
    start: int
    end: int


def overlapping_groups(a: Attribution, offsets: Sequence[Span]) -> list[TokenGroup]:
    """Return the spans of tokens, with tokens that share characters, such as the bytes of one emoji, as one group.

    Args:
        a: The result.
        offsets: The span of each token, in characters of its text.
    """
    groups: list[TokenGroup] = []
    sequence_before = None  # which text the token before is of
    for token, (start, end) in enumerate(offsets):
        sequence = a.units.sequence[token]
        if groups and sequence == sequence_before and _overlaps(groups[-1], start, end):
            tokens, group_start, group_end = groups.pop()
            groups.append(TokenGroup((*tokens, token), group_start, max(group_end, end)))
        else:
            groups.append(TokenGroup((token,), start, end))
        sequence_before = sequence
    return groups


def _overlaps(group: TokenGroup, start: int, end: int) -> bool:
    """Return whether a group shares characters with a span after its first character; empty spans share none."""
    have_characters = start < end and group.start < group.end
    return have_characters and start < group.end


def tokens_as_text(a: Attribution) -> tuple[list[str], list[TokenGroup]]:
    """Return texts made by joining the tokens at their word boundary markers, and a group of each token by itself.

    Args:
        a: A result without a text. Of a pair there are two texts, otherwise one.
    """
    texts = ["", ""] if 1 in a.units.sequence else [""]
    groups: list[TokenGroup] = []
    text_index = 0  # which text the token stands in
    # A tokenizer with such marks tells by their absence that a token goes on with a word.
    has_marks = any(token[:1] in _WORD_STARTS for token in a.tokens)
    for index, token in enumerate(a.tokens):
        sequence = a.units.sequence[index]
        if sequence is not None:  # otherwise a token stands in the text of the token before it
            text_index = sequence
        if a.special_tokens_mask[index]:  # drawn with a text of its own, see `cut`
            groups.append(TokenGroup((index,), 0, 0))
            continue
        continues_word = token.startswith("##") or (has_marks and token[:1] not in _WORD_STARTS)
        if texts[text_index] and not continues_word:
            texts[text_index] += " "
        start = len(texts[text_index])
        texts[text_index] += _characters(token)
        groups.append(TokenGroup((index,), start, len(texts[text_index])))
    return texts, groups


def _characters(token: str) -> str:
    """Return a token without the mark of where it stands in a word; one that is nothing else as it is."""
    return token.removeprefix("##").lstrip(_WORD_STARTS) or token
