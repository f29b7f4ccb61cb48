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
        return (value if isinstance(value, bytes) else value.encode("utf-8")).decode("utf-8")
    except UnicodeError as error:
        start: int = error.start  # type: ignore[attr-defined]
        raise InputError(f"not text: column {column!r} is not UTF-8, at {start}: half a character") from None
