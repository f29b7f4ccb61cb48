"""Sources of rows, which are read block by block: of a table or rows in memory here, of files in `table_files`.

Each row comes with its values, or with the reason why it has none.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from ..errors import DataError, optional_module, reason_of
from ..inputs.label_names import class_names_of
from ..inputs.texts import collected, is_column

BLOCK = 4096
"""Rows read at a time."""

MAPPINGS = 'its rows as mappings such as {"text": "..."}'
"""What an error advises to give instead of a table that cannot be read."""

ClassNames = Mapping[str, Sequence[str]]
"""What the whole numbers 0, 1, ... of a column stand for, by the name of the column."""

InputRow = Mapping[str, Any] | str
"""The values of a row, or the reason why it cannot be read."""


@dataclass(frozen=True)
class RowBlock:
    """N rows of a source.

    Attributes:
        columns: The requested columns, (N,) each: Arrow arrays, or lists of Python values where cells may hold any.
        problems: Why each row cannot be read, (N,); None for one that can.
        fraction: The share of the source that is read so far, 0 if that is not known.
    """

    columns: Mapping[str, Any]
    problems: Sequence[str | None]
    fraction: float

    @classmethod
    def of(cls, table: Any, fraction: float) -> "RowBlock":
        """Return the rows of an Arrow table, all of which can be read."""
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        return cls(columns, [None] * len(table), fraction)

    def cells(self, name: str) -> list[Any]:
        """Return the cells of a column, (N,), as Python values."""
        column = self.columns[name]
        if isinstance(column, list):
            return column
        cells: list[Any] = column.to_pylist(maps_as_pydicts="strict")  # else maps would be lists of pairs
        return cells


@dataclass(frozen=True)
class RowSource:
    """Where rows come from.

    Attributes:
        names: Returns the names of the columns; of JSON lines those in the first block.
        blocks: Is given names of columns; yields all rows with these columns, block by block and in their order.
        parts: The names of what is read, such as files, for errors.
        class_names: Returns the names of classes by their columns; none where the source has no such names.
    """

    names: Callable[[], list[str]]
    blocks: Callable[[Sequence[str]], Iterator[RowBlock]]
    parts: Sequence[str] = ("rows in memory",)
    class_names: Callable[[], ClassNames] = dict


def arrow_module() -> Any:
    """Return pyarrow, with the submodules that it does not import itself.

    Raises:
        DataError: If it is not installed.
    """
    missing = "tables need pyarrow: pip install 'normxlogit[scale]', or 'normxlogit[eval]' for evaluations"
    for name in ("pyarrow.compute", "pyarrow.parquet"):
        optional_module(name, missing)
    return optional_module("pyarrow", missing)


def source_in_memory(inputs: Any) -> RowSource:
    """Return the source of rows in memory.

    Args:
        inputs: A table of pandas, Polars or Arrow, a column, a data set, a mapping of columns, or rows as mappings.

    Raises:
        DataError: If rows cannot be read from it.
    """
    arrow = arrow_module()
    inputs = collected(inputs)
    # A mapping of columns; one of other values is no row either, as rows come in a list.
    if isinstance(inputs, Mapping) and inputs and all(map(is_column, inputs.values())):
        inputs = arrow.table(dict(inputs))
    if to_frame := getattr(inputs, "to_frame", None):  # a column of pandas or Polars
        inputs = to_frame(getattr(inputs, "name", None) or "text")  # the usual name of a column of texts
    if hasattr(inputs, "__arrow_c_stream__"):  # Arrow's protocol, which frames of all libraries have
        return _source_of_frame(inputs)
    if not isinstance(inputs, Iterable) or isinstance(inputs, Mapping | bytes):
        raise DataError(f"cannot read rows from a {type(inputs).__name__}; give a table, or {MAPPINGS}")
    return replace(source_of_rows(map(_checked_row, inputs)), class_names=lambda: class_names_of_dataset(inputs))


def _source_of_frame(table: Any) -> RowSource:
    """Return the source of a frame; one of pandas with columns of mixed types is read row by row."""
    arrow = arrow_module()
    try:
        return source_of_table(arrow.table(table))
    except (arrow.ArrowException, TypeError, ValueError) as error:
        if hasattr(table, "notna") and table.columns.is_unique:  # of pandas, and rows can be mappings
            return source_of_rows(table.astype(object).where(table.notna(), None).to_dict("records"))
        problem = f"cannot read this {type(table).__name__} as an Arrow table: {reason_of(error)}"
        raise DataError(f"{problem}; give {MAPPINGS}") from None


def _checked_row(row: Any) -> Mapping[str, Any]:
    """Return a row, after checking that it is a mapping."""
    if not isinstance(row, Mapping):
        raise DataError(f"cannot read a row of type {type(row).__name__}; give {MAPPINGS}")
    return row


def source_of_table(table: Any) -> RowSource:
    """Return the source of an Arrow table."""

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        for number, block in enumerate(blocks_of_table(table.select(list(columns))), 1):
            yield RowBlock.of(block, min(number * BLOCK / len(table), 1.0))

    return RowSource(lambda: list(table.column_names), blocks, class_names=lambda: class_names_in(table.schema))


def blocks_of_table(table: Any) -> Iterator[Any]:
    """Yield the rows of an Arrow table as Arrow tables of at most `BLOCK` rows.

    Columns of views (`string_view`), which Polars writes and Arrow's `take` does not know, become plain ones.
    """
    arrow = arrow_module()
    for start in range(0, len(table), BLOCK):
        block = table.slice(start, BLOCK)
        columns = {
            name: arrow.array(column.to_pylist()) if "view" in str(column.type) else column
            for name, column in zip(block.column_names, block.columns, strict=True)
        }
        yield arrow.table(columns)


def source_of_rows(rows: Iterable[InputRow], fraction: Callable[[], float] = lambda: 0.0) -> RowSource:
    """Return the source of rows that can be read only once, whose columns are those of the first `BLOCK` rows.

    Args:
        rows: The rows, or why they cannot be read.
        fraction: Returns the share of the source that is read.
    """
    rows = iter(rows)
    first_rows = list(islice(rows, BLOCK))
    names = list(dict.fromkeys(chain.from_iterable(row for row in first_rows if not isinstance(row, str))))

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        remaining_rows = chain(first_rows, rows)
        while rows_of_block := list(islice(remaining_rows, BLOCK)):
            problems = [row if isinstance(row, str) else None for row in rows_of_block]
            mappings = [{} if isinstance(row, str) else row for row in rows_of_block]
            values = {name: [mapping.get(name) for mapping in mappings] for name in columns}  # rows may lack a column
            yield RowBlock(values, problems, fraction())

    return RowSource(lambda: names, blocks)


def class_names_in(schema: Any) -> ClassNames:
    """Return the names of classes by their columns, as `datasets` writes them into the schema of a file."""
    metadata = schema.metadata or {}
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return _class_names(features)
    except (ValueError, KeyError, TypeError, AttributeError):  # another library wrote this entry, in another form
        return {}


def class_names_of_dataset(dataset: Any) -> ClassNames:
    """Return the names of classes of a data set of `datasets` by their columns; none of anything else."""
    features = getattr(dataset, "features", None)
    return _class_names(features) if isinstance(features, Mapping) else {}


def _class_names(features: Mapping[str, Any]) -> ClassNames:
    """Return the names of classes by their columns, of those columns whose feature of `datasets` has any."""
    names_by_column = {column: class_names_of(feature) for column, feature in features.items()}
    return {column: names for column, names in names_by_column.items() if names}


def rows_of(source: RowSource, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield some columns of each row.

    Args:
        source: The rows.
        columns: The names of the columns.

    Raises:
        DataError: If a row cannot be read.
    """
    for number, (problem, row) in enumerate(rows_and_problems(source, columns)):
        if problem is not None:
            raise DataError(f"{', '.join(source.parts)}, row {number}: {problem}")
        yield row


def rows_and_problems(source: RowSource, columns: Sequence[str]) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Yield for each row the reason why it cannot be read, None for one that can, and some of its columns.

    Args:
        source: The rows.
        columns: The names of the columns.
    """
    for block in source.blocks(columns):
        cells_of_columns = map(block.cells, columns)
        for problem, *cells_of_row in zip(block.problems, *cells_of_columns, strict=True):
            yield problem, dict(zip(columns, cells_of_row, strict=True))


def check_columns(names: Iterable[str], requested: Sequence[str]) -> None:
    """Refuse names of columns that do not exist or exist several times.

    Args:
        names: The names of the columns of a table.
        requested: The names that a caller gives.

    Raises:
        DataError: If one of them is not the name of exactly one column.
    """
    existing = list(names)
    for name in requested:
        if name not in existing:
            raise DataError(f"no column {name!r} in the input; there are {', '.join(existing)}")
        if existing.count(name) > 1:
            raise DataError(f"{existing.count(name)} columns are called {name!r}; rename all but one")
