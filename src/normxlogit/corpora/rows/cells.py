"""Cells of the input, converted to strings: a text, words, or a prompt."""

import json
from typing import Any

from ...inputs.texts import SplitText


def text_cell(value: Any, column: str) -> str:
    """Return a text, or UTF-8 bytes as text.

    Args:
        value: The content of the cell.
        column: What errors call the column, such as "column 'text'".

    Raises:
        ValueError: If it is no text; the reason is that of the row.
    """
    if value is None:
        raise ValueError(f"no text: {column} is null")
    if not isinstance(value, str | bytes):
        raise ValueError(f"not text: {column} holds {str(value)[:80]!r}")
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else value.encode("utf-8").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not text: bytes that are not UTF-8, at {error.start}") from None
    except UnicodeEncodeError:
        raise ValueError("not text: half a character (a lone surrogate)") from None


def split_cell(value: Any, column: str) -> str:
    """Return a text, or words that are split, joined by spaces; errors are those of `text_cell`."""
    return text_cell(value if words_cell(value, column) is None else SplitText(value), column)


def words_cell(value: Any, column: str) -> str | None:
    """Return words that are split as JSON; None for any other cell."""
    is_split = isinstance(value, list) and value and all(isinstance(word, str) for word in value)
    return json.dumps(value) if is_split else None


def prompt_cell(value: Any, column: str) -> str:
    """Return a prompt as JSON: a text, or a list of chat messages.

    Raises:
        ValueError: If it is neither.
    """
    return json_cell(value) if isinstance(value, list) else json.dumps(text_cell(value, column))


def json_cell(value: Any) -> str:
    """Return a value as JSON, with the pictures and sounds in it as data URIs."""

    def without_json(content: Any) -> str:
        from ...media.inputs.items import json_value  # pictures and sounds are of the wing `media`

        return json_value(content)

    return json.dumps(value, default=without_json)
