"""The rows of files of lines: JSON lines, a JSON array, or a text on each line."""

import io
import json
from collections.abc import Iterator
from typing import Any

from ..inputs.texts import UTF16, encoding_of
from .tables import InputRow

NO_TEXT = "UTF-16, or no text at all; save it as UTF-8"
"""The error for a file whose first line has a zero byte, which UTF-8 writes in no text."""


def encoding_of_file(file: Any) -> str:
    """Return the encoding that the first bytes of a file tell; the file is at its start again."""
    encoding = encoding_of(file.read(len(UTF16[0])))
    file.seek(0)
    return encoding


def rows_of_lines(file: Any, kind: str, encoding: str = "utf-8-sig") -> Iterator[InputRow]:
    """Yield the rows of a file of JSON lines, or of a text file, whose lines are texts.

    Empty lines of JSON are skipped, and a JSON array gives a row for each entry.

    Args:
        file: The file of bytes.
        kind: "jsonl" or "text".
        encoding: Its encoding.

    Raises:
        ValueError: If the file is not text, or is an array that is not JSON.
    """
    # A line that is not UTF-8 is a problem of its row, see `CsvFile`; a carriage return alone ends no line.
    lines = io.TextIOWrapper(file, encoding, "surrogateescape", newline="\n")
    for number, line in enumerate(lines):
        if number == 0 and "\0" in line:
            raise ValueError(NO_TEXT)
        if kind == "text":
            yield {"text": line.rstrip("\r\n")}
        elif number == 0 and line.lstrip().startswith("["):
            yield from map(_json_row, _parsed_json(line + lines.read()))
        elif line.strip():
            yield _row_of_line(line)
    lines.detach()  # the wrapper would close the file, which who opened it closes


def _row_of_line(line: str) -> InputRow:
    """Return the row of a line of JSON, or why it cannot be read."""
    try:
        return _json_row(_parsed_json(line))
    except ValueError as error:
        return f"not JSON: {error}"


def _parsed_json(content: str) -> Any:
    """Return what is written as JSON.

    Raises:
        ValueError: If it is not JSON, or nested too deep.
    """
    try:
        return json.loads(content.encode("utf-8", "surrogateescape"))  # bytes that are not UTF-8 are refused
    except RecursionError as error:
        raise ValueError(error) from None


def _json_row(value: Any) -> InputRow:
    """Return a JSON object as a row; for another value why it is not one."""
    return value if isinstance(value, dict) else "not a JSON object"
