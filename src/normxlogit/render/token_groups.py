"""Where tokens stand in the texts that are drawn."""

from ..results.attribution import Attribution

Group = tuple[tuple[int, ...], int, int]
"""Tokens, with the start and end of their text; (0, 0) for tokens without characters."""

_WORD_STARTS = "Ġ▁"
"""Marks of tokens that begin a word."""


def overlapping_groups(a: Attribution, offsets: tuple[tuple[int, int], ...]) -> list[Group]:
    """Return the spans of tokens, with tokens that share characters, such as the bytes of one emoji, as one group.

    Args:
        a: The result.
        offsets: The span of each token, in characters of its text.
    """
    groups: list[Group] = []
    for token, (start, end) in enumerate(offsets):
        if groups and _overlaps(a, groups[-1], token, (start, end)):
            tokens, first, covered = groups[-1]
            groups[-1] = ((*tokens, token), first, max(covered, end))
        else:
            groups.append(((token,), start, end))
    return groups


def _overlaps(a: Attribution, group: Group, token: int, span: tuple[int, int]) -> bool:
    """Return whether a token shares characters with the group before it."""
    tokens, first, covered = group
    start, end = span
    same_text = a.units.sequence[token] == a.units.sequence[tokens[-1]]
    return end > start and max(first, start) < covered and same_text


def tokens_as_text(a: Attribution) -> tuple[list[str], list[Group]]:
    """Return texts made by joining the tokens at their word boundary markers, and the span of each token."""
    texts = ["", ""] if 1 in a.units.sequence else [""]
    groups: list[Group] = []
    number = 0
    marked = any(token[:1] in _WORD_STARTS for token in a.tokens)
    for index, (token, sequence) in enumerate(zip(a.tokens, a.units.sequence, strict=False)):
        number = number if sequence is None else sequence
        if a.special_tokens_mask[index]:
            groups.append(((index,), 0, 0))
            continue
        continues_word = token.startswith("##") or (marked and token[:1] not in _WORD_STARTS)
        if texts[number] and not continues_word:
            texts[number] += " "
        start = len(texts[number])
        texts[number] += (token.removeprefix("##") if continues_word else token.lstrip(_WORD_STARTS)) or token
        groups.append(((index,), start, len(texts[number])))
    return texts, groups
