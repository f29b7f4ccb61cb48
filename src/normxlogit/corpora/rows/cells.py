"""Cells of the input, converted to strings: a text, a prompt, documents or a conversation."""

import json
from collections.abc import Mapping
from typing import Any

from ...errors import InputError
from ...grounding.documents.conversations import read_conversation
from ...grounding.documents.documents import documents_by_name
from ...inputs.texts import SplitText
from ...media.inputs.items import json_value


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
    if value is None:
        raise ValueError(f"no prompt: {column} is null")
    if isinstance(value, list):
        return json.dumps(value, default=json_value)
    if not isinstance(value, str):
        raise ValueError(f"no prompt: {column} holds {str(value)[:80]!r}")
    return json.dumps(text_cell(value, column))


def documents_cell(value: Any, column: str) -> str:
    """Return documents as JSON of texts by name.

    Raises:
        ValueError: If they cannot be read.
    """
    try:
        return json.dumps(documents_by_name(value))
    except InputError as error:
        raise ValueError(f"{column}: {error}") from None


def conversation_cell(value: Any, column: str) -> str:
    """Return the messages of a conversation as JSON, from data or from JSON; also several columns of them by name.

    Raises:
        ValueError: If they cannot be read.
    """
    if value is None:
        raise ValueError(f"no conversation: {column} is null")
    several = isinstance(value, Mapping)
    value = {name: _from_json(part, column) for name, part in value.items()} if several else _from_json(value, column)
    try:
        read_conversation(value)
        return json.dumps(value, default=json_value)
    except RecursionError:
        raise ValueError(f"{column} is nested too deeply") from None
    except InputError as error:
        raise ValueError(str(error)) from None


def _from_json(value: Any, column: str) -> Any:
    """Return what a text of JSON holds; anything else unchanged."""
    if not isinstance(value, str | bytes):
        return value
    text = text_cell(value, column)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
