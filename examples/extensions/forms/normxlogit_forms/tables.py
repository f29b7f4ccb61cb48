"""A kind of part of a message: a table, {"type": "table", "table": [["year", "pool"], [1974, "open"]]}."""

import csv
from collections.abc import Mapping
from typing import Any

from normxlogit import InputError
from normxlogit.inputs.message_parts import PartReader, ReadPart


def type_of(part: Any) -> str | None:
    """Return "table" of a table, None of other parts."""
    return "table" if isinstance(part, Mapping) and "table" in part else None


def text_of(part: Any) -> Any:
    """Return a table as a text part with a line for each row, other parts as they are."""
    if type_of(part) is None:
        return part
    rows = part["table"]
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise InputError(f"expected a table as a list of rows, got {rows!r}")
    return {"type": "text", "text": "\n".join(" | ".join(map(str, row)) for row in rows)}


def read(
    messages: list[dict[str, Any]], prompt: Any, tokenizer: Any
) -> tuple[list[dict[str, Any]], tuple[ReadPart, ...]]:
    """Return messages whose tables are texts; there is no part that is not a text."""
    return [
        message | {"content": [text_of(part) for part in message["content"]]}
        if isinstance(message.get("content"), list)
        else message
        for message in messages
    ], ()


def of_file(path: str) -> dict[str, Any] | None:
    """Return a CSV file as a table, for `normxlogit generate --attach`; None of other files."""
    if not path.endswith(".csv"):
        return None
    with open(path, encoding="utf-8", newline="") as file:
        return {"type": "table", "table": list(csv.reader(file))}


READER = PartReader(
    type_of,
    read,
    beside=(),
    keys=("table",),
    hint='a table stands in a message as {"table": rows}',
    of_file=of_file,
)
