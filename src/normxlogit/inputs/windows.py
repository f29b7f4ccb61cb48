"""Windows of a text beyond the model's length."""

from ..errors import InputError
from .encoding import Encoding

OVERLAP = 4
"""Neighbouring windows overlap by this fraction, 1 / OVERLAP, of their text."""

Indices = list[int]
"""Of tokens."""


def windows(encoding: Encoding, limit: int, position: int | None = None) -> list[Indices]:
    """Cut a text into windows that overlap by a quarter.

    Args:
        encoding: The text, longer than the limit.
        limit: Most tokens that the model reads.
        position: The token that alone is explained, in one window around it; None for the whole text.

    Returns:
        The indices of each window's tokens; special tokens and the shorter text of a pair are in all of them, and the
        last window ends where the text ends.
    """
    content, size = text_to_cut(encoding, limit)
    if position is not None:  # in the middle, unless it is near an end of the text
        middle = sum(i < position for i in content)
        return [_window_indices(encoding, content, min(max(0, middle - size // 2), len(content) - size), size)]
    step = size - size // OVERLAP
    starts = [*range(0, len(content) - size, step), len(content) - size]
    return [_window_indices(encoding, content, start, size) for start in starts]


def text_to_cut(encoding: Encoding, limit: int) -> tuple[Indices, int]:
    """Return the indices of the tokens of the text to cut, and how many of them fit into a window."""
    sequences = [
        [i for i, s in enumerate(encoding.sequence_ids) if s == sequence and not encoding.special[i]]
        for sequence in (0, 1)
    ]
    text_tokens = max(sequences, key=len)
    tokens_per_window = limit - (len(encoding) - len(text_tokens))
    if tokens_per_window < 1:
        raise InputError(
            f"the shorter text of the pair fills the model's {limit} tokens, which leaves no tokens for windows of the "
            "longer; shorten it"
        )
    return text_tokens, tokens_per_window


def _window_indices(encoding: Encoding, content: Indices, start: int, size: int) -> Indices:
    """Return the token indices of a window: `size` of the text to cut, and all tokens that every window keeps."""
    left_out = set(content[:start]) | set(content[start + size :])
    return [i for i in range(len(encoding)) if i not in left_out]
