"""Windows of a text that has more tokens than the model reads."""

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

    Returns:
        The tokens of each window.

    Raises:
        InputError: If the tokens that are in every window leave no room for others.
    """
    content = text_to_cut(encoding)
    size = limit - (len(encoding) - len(content))  # how many of them fit into a window
    if size < 1:
        raise InputError(f"the shorter text of the pair fills the model's {limit} tokens and leaves none for windows")
    last_start = len(content) - size
    if position is None:
        step = size - size // OVERLAP
        # The last window ends with the text, so that it may share more than a quarter with the one before.
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


def text_to_cut(encoding: Encoding) -> Indices:
    """Return the tokens that are cut into windows: those of a text, or of the longer text of a pair."""
    return max(encoding.tokens_of_texts(), key=len)


def _window_indices(encoding: Encoding, content: Indices, start: int, size: int) -> Indices:
    """Return the token indices of a window: `size` of the text to cut, and all tokens that every window keeps."""
    left_out = set(content[:start]) | set(content[start + size :])
    return [token for token in range(len(encoding)) if token not in left_out]
