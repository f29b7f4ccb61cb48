"""The texts in the cells of a table."""

from typing import Any

from ..errors import InputError


def text_of(value: Any, column: str | None) -> str:
    """Return a text, or UTF-8 bytes as text.

    Args:
        value: The value of a cell.
        column: Its column, for errors.

    Raises:
        InputError: If it is not a text, or not UTF-8.
    """
    if not isinstance(value, str | bytes):
        if value is None:
            raise InputError(f"no text: column {column!r} is null")
        raise InputError(f"not text: column {column!r} holds {str(value)[:80]!r}")
    try:
        # A text with surrogates, such as a cell of CSV that is not UTF-8, cannot be encoded.
        utf8 = value if isinstance(value, bytes) else value.encode("utf-8")
        return utf8.decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        raise InputError(f"not text: column {column!r} is not UTF-8, at {error.start}: half a character") from None
