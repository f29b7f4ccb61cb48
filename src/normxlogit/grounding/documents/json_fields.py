"""The fields of a JSON text: their paths and their spans in the text."""

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # it says where a string ends

SPACE = re.compile(r"[ \t\n\r]*")
SCALAR = re.compile(r"[^\s,\]}]+")

Fields = list[tuple[str, int, int]]


def json_fields(text: str) -> Fields:
    """Return path, start and end of each field that is a text, a number or a boolean.

    A field of an object begins with its key: of '{"a": {"b": 1}, "c": ["x"]}' they are "a.b" with '"b": 1' and "c[0]"
    with '"x"'. Empty texts, objects and arrays and null are left out.

    Args:
        text: The text.

    Returns:
        The fields in the order of the text; none if the text is not an object or an array of JSON.
    """
    if not text.lstrip().startswith(("{", "[")):
        return []
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return []
    fields: Fields = []
    _add_value(text, _after_space(text, 0), "", 0, fields)
    return fields


def _add_value(text: str, position: int, path: str, start: int, fields: Fields) -> int:
    """Add the fields of the value that begins at a character.

    Args:
        text: Valid JSON.
        position: The first character of the value.
        path: The path of the value.
        start: Where its field begins: at its key, if it has one.
        fields: Where they are added.

    Returns:
        Where the value ends.
    """
    if text[position] in "{[":
        return _add_container(text, position, path, fields)
    if text[position] == '"':
        content, end = _read_string(text, position)
        has_content = bool(content.strip())
    else:
        match = SCALAR.match(text, position)
        end = position + 1 if match is None else match.end()
        has_content = text[position:end] != "null"
    if has_content:
        fields.append((path, start, end))
    return end


def _add_container(text: str, position: int, path: str, fields: Fields) -> int:
    """Add the fields of an object or an array."""
    is_object, number = text[position] == "{", 0
    position = _after_space(text, position + 1)
    while text[position] not in "}]":
        start = position
        if is_object:
            key, position = _read_string(text, position)
            position = _after_space(text, _after_space(text, position) + 1)  # behind the colon
            inner = f"{path}.{key}" if path else key
        else:
            inner = f"{path}[{number}]"
        position = _after_space(text, _add_value(text, position, inner, start, fields))
        if text[position] == ",":
            position = _after_space(text, position + 1)
        number += 1
    return position + 1


def _after_space(text: str, position: int) -> int:
    """Return the position of the first character that is not white space."""
    match = SPACE.match(text, position)
    return position if match is None else match.end()


def _read_string(text: str, position: int) -> tuple[str, int]:
    """Return the string that begins with the quote at a position, and its end."""
    content, end = scanstring(text, position + 1)
    return str(content), int(end)
