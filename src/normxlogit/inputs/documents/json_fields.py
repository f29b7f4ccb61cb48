"""The fields of a JSON text, by their paths, with where they are in the text."""

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # it says where a string ends

SPACE = re.compile(r"[ \t\n\r]*")
SCALAR = re.compile(r"[^\s,\]}]+")

Fields = list[tuple[str, int, int]]


def json_fields(text: str) -> Fields:
    """Return path, start and end of each field that holds a text, a number or a truth value.

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
    _value(text, _after_space(text, 0), "", 0, fields)
    return fields


def _value(text: str, at: int, path: str, start: int, fields: Fields) -> int:
    """Add the fields of the value that begins at a character.

    Args:
        text: Valid JSON.
        at: The first character of the value.
        path: The path of the value.
        start: Where its field begins: at its key, if it has one.
        fields: Where they are added.

    Returns:
        Where the value ends.
    """
    if text[at] in "{[":
        return _container(text, at, path, fields)
    if text[at] == '"':
        content, end = _string(text, at)
        filled = bool(content.strip())
    else:
        match = SCALAR.match(text, at)
        end = at + 1 if match is None else match.end()
        filled = text[at:end] != "null"
    if filled:
        fields.append((path, start, end))
    return end


def _container(text: str, at: int, path: str, fields: Fields) -> int:
    """Add the fields of an object or an array."""
    is_object, number = text[at] == "{", 0
    at = _after_space(text, at + 1)
    while text[at] not in "}]":
        start = at
        if is_object:
            key, at = _string(text, at)
            at = _after_space(text, _after_space(text, at) + 1)  # behind the colon
            inner = f"{path}.{key}" if path else key
        else:
            inner = f"{path}[{number}]"
        at = _after_space(text, _value(text, at, inner, start, fields))
        if text[at] == ",":
            at = _after_space(text, at + 1)
        number += 1
    return at + 1


def _after_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return at if match is None else match.end()


def _string(text: str, at: int) -> tuple[str, int]:
    """Return the string whose opening quote is at a character, and where it ends."""
    content, end = scanstring(text, at + 1)
    return str(content), int(end)
