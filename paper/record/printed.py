"""What a command printed or wrote, as text and as tables: of Markdown, and of JSON by the names in it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .marks import Cells, tables_in

__all__ = ["Printed", "read_printed"]


@dataclass(frozen=True)
class Printed:
    """What commands printed, or what stands on other pages.

    Attributes:
        text: All of it.
        tables: The tables in it, each under the last heading and line before it, of JSON under its key.
    """

    text: str
    tables: Sequence[tuple[str, Cells]] = ()


def read_printed(text: str) -> Printed:
    """Find the tables in what was printed."""
    try:
        state = json.loads(text)
    except ValueError:
        return Printed(text, tables_in(text))
    return Printed(text, list(_json_tables(state, "")))


def _json_tables(state: Any, key: str) -> Iterator[tuple[str, Cells]]:
    """Yield lists of objects, a row for each, and objects that hold lists of one length, a column for each."""
    if isinstance(state, list):
        records = [row for row in state if isinstance(row, dict)]
        names = [name for name in (records[0] if records else ()) if all(_is_cell(row.get(name)) for row in records)]
        if names:
            yield key, (tuple(names), *(tuple(_cell(row.get(name)) for name in names) for row in records))
        for row in records:
            yield from _json_tables(row, key)
    elif isinstance(state, dict):
        columns = {
            name: value for name, value in state.items() if isinstance(value, list) and all(map(_is_cell, value))
        }
        for length in sorted({len(value) for value in columns.values()} - {0}):
            names = [name for name, value in columns.items() if len(value) == length]
            yield (
                key,
                (tuple(names), *(tuple(map(_cell, row)) for row in zip(*(columns[n] for n in names), strict=True))),
            )
        for name, value in state.items():
            yield from _json_tables(value, name)


def _is_cell(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
