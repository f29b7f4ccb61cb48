"""Sources of rows: what a data set is read from, block by block; here tables and rows in memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

from ..errors import DataError, reason_of
from .table_files import BLOCK, InputRow, RowBlock, arrow_module, row_blocks, row_names, sliced
from .texts import collected, is_column


@dataclass(frozen=True)
class RowSource:
    """Where rows come from.

    Attributes:
        names: Returns the names of the columns.
        blocks: Reads some columns of all rows, in their order, block by block.
        parts: The names of what is read, such as files.
    """

    names: Callable[[], list[str]]
    blocks: Callable[[Sequence[str]], Iterator[RowBlock]]
    parts: Sequence[str] = ("rows in memory",)


def source_in_memory(inputs: Any) -> RowSource:
    """Return the source of rows in memory.

    Args:
        inputs: A table of pandas, Polars, Arrow or DuckDB, or a column of the former two; a mapping of columns; or an
            iterable of mappings such as {"text": "..."}, which is read once.

    Raises:
        DataError: If it is something else, or pyarrow is missing.
    """
    arrow, inputs = arrow_module(), collected(inputs)
    if isinstance(inputs, Mapping) and inputs and all(map(is_column, inputs.values())):
        inputs = arrow.table(dict(inputs))
    if to_frame := getattr(inputs, "to_frame", None):  # a column of pandas or Polars
        inputs = to_frame(getattr(inputs, "name", None) or "text")
    if hasattr(inputs, "__arrow_c_stream__"):
        return _of_frame(inputs)
    if not isinstance(inputs, Iterable) or isinstance(inputs, Mapping | bytes):
        raise DataError(
            f"cannot read rows from a {type(inputs).__name__}; give a table, or its rows as mappings such as "
            '{"text": "..."}'
        )
    return source_of_rows(map(_mapping, inputs))


def _of_frame(table: Any) -> RowSource:
    """Return the source of a table; a pandas frame with columns of mixed types is read row by row."""
    arrow = arrow_module()
    try:
        return source_of_table(arrow.table(table))
    except (arrow.ArrowException, TypeError, ValueError) as error:
        if hasattr(table, "notna") and table.columns.is_unique:
            records = table.astype(object).where(table.notna(), None).to_dict("records")
            return source_of_rows(records)
        raise DataError(
            f"cannot read this {type(table).__name__} as an Arrow table: {reason_of(error)}; give its rows as "
            'mappings such as {"text": "..."}'
        ) from None


def source_of_table(table: Any) -> RowSource:
    """Return the source of an Arrow table."""
    return RowSource(lambda: list(table.column_names), partial(_table_blocks, table))


def _table_blocks(table: Any, columns: Sequence[str]) -> Iterator[RowBlock]:
    for number, block in enumerate(sliced(table.select(list(columns))), 1):
        yield RowBlock.of(block, min(number * BLOCK / len(table), 1.0))


def source_of_rows(rows: Iterable[InputRow]) -> RowSource:
    """Return the source of rows that can be read only once, whose columns are those of the first rows."""
    rows = iter(rows)
    first = list(islice(rows, BLOCK))
    # Rows that are read in order to look at them are read again: `first` stays.
    return RowSource(partial(row_names, first), lambda columns: row_blocks(chain(first, rows), columns, lambda: 0.0))


def _mapping(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise DataError(f'a row in memory is a mapping such as {{"text": "..."}}, not {type(row).__name__}')
    return row
