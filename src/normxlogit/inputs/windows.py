"""Windows of a text that has more tokens than the model reads."""

from typing import NamedTuple

from ..errors import InputError
from .encoding import Encoding

OVERLAP = 4
"""Neighbouring windows of a long text share 1 / OVERLAP of their text."""

Indices = list[int]
"""Indices of tokens."""


def windows(encoding: Encoding, limit: int, position: int | None = None) -> list[Indices]:
    """Cut a text longer than the limit into windows that overlap by a quarter, or into one around a position.

    Special tokens and the shorter text of a pair are in all windows, and the last one ends where the text ends.

    Args:
        encoding: The text.
        limit: How many tokens the model reads.
        position: The token in the middle of the only window; None for windows over the whole text.
    """
    content, size = text_to_cut(encoding, limit)
    last_start = len(content) - size
    if position is None:
        step = size - size // OVERLAP
        starts = [*range(0, last_start, step), last_start]
    else:
        tokens_before = sum(token < position for token in content)
        middle_start = tokens_before - size // 2  # with which the position is in the middle of the window
        starts = [min(max(0, middle_start), last_start)]
    return [_window_indices(encoding, content, start, size) for start in starts]


def too_long(index: int, length: int, limit: int) -> InputError:
    """Return the error for an input of which the model cannot read all tokens at once."""
    return InputError(f"input {index} has {length} tokens and the model reads {limit}; long_text='window' reads all")


def check_fits(content: str, count: int, limit: int | None, advice: str = "shorten them") -> None:
    """Refuse more tokens than a model reads, where none of them can be left out.

    Args:
        content: What the tokens are of, with its verb, such as "the prompt has".
        count: How many tokens there are.
        limit: How many the model reads; None for any number.
        advice: What to do.

    Raises:
        InputError: If there are more.
    """
    if limit is not None and count > limit:
        raise InputError(f"{content} {count} tokens and the model reads {limit}; {advice}")


class TextToCut(NamedTuple):
    """What of a long encoding is cut into windows: its text, or the longer text of a pair."""

    tokens: Indices  # its tokens, without special ones
    tokens_per_window: int  # how many of them fit into a window


def text_to_cut(encoding: Encoding, limit: int) -> TextToCut:
    """Return which tokens of an encoding are cut into windows, and how many of them fit into one.

    Args:
        encoding: A text or a pair.
        limit: How many tokens the model reads.

    Raises:
        InputError: If the rest, which is in every window, leaves no room.
    """
    longer = max(encoding.tokens_of_texts(), key=len)
    tokens_per_window = limit - (len(encoding) - len(longer))
    if tokens_per_window < 1:
        raise InputError(f"the shorter text of the pair fills the model's {limit} tokens and leaves none for windows")
    return TextToCut(longer, tokens_per_window)


def _window_indices(encoding: Encoding, content: Indices, start: int, size: int) -> Indices:
    """Return the token indices of a window: `size` of the text to cut, and all tokens that every window keeps."""
    left_out = set(content[:start]) | set(content[start + size :])
    return [token for token in range(len(encoding)) if token not in left_out]
