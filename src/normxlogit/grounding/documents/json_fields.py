"""The fields of a JSON text: their paths and their spans in the text."""

import json
import re

BETWEEN = re.compile(r"[\s,:]*")
"""What stands between values and keys."""

DECODER = json.JSONDecoder()

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
    start = len(text) - len(text.lstrip())
    try:
        if not isinstance(json.loads(text), dict | list):
            return []
        fields: Fields = []
        _add_fields(text, start, "", start, fields)
    except (ValueError, RecursionError):
        return []
    return fields


def _add_fields(text: str, position: int, path: str, start: int, fields: Fields) -> int:
    """Add the fields of a value.

    Args:
        text: Valid JSON.
        position: The first character of the value.
        path: The path of the value.
        start: Where its field begins: at its key, if it has one.
        fields: Where they are added.

    Returns:
        Where the value ends.
    """
    if text[position] not in "{[":
        value, end = DECODER.raw_decode(text, position)
        if value is not None and str(value).strip():
            fields.append((path, start, end))
        return end
    is_object, number, position = text[position] == "{", 0, _next(text, position + 1)
    while text[position] not in "}]":
        start, inner = position, f"{path}[{number}]"
        if is_object:
            key, position = DECODER.raw_decode(text, position)
            inner, position = f"{path}.{key}" if path else key, _next(text, position)
        position = _next(text, _add_fields(text, position, inner, start, fields))
        number += 1
    return position + 1


def _next(text: str, position: int) -> int:
    """Return the position of the next value, key or closing bracket."""
    return BETWEEN.match(text, position).end()  # type: ignore[union-attr]  # it matches nothing, too
