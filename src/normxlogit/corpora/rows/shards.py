"""Shards of the input: tables of equal size with the same columns for every format."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...errors import DataError
from ...inputs.table_files import RowBlock, RowSource, arrow_module, check_columns
from ...results.storage.schema import Index

KEPT = "kept "
"""Prefix of kept columns in a shard, which has columns of its own with the same names."""


MEDIUM = "medium"
"""The key of a picture or a sound in a row, behind its prefix."""


class TextColumn(NamedTuple):
    """The columns of the input that a column of a shard is read from.

    Attributes:
        names: A column of the input, or several that make a mapping together, such as a request and its response.
        parse: Returns a cell as a string, of the cell and of what errors call the column.
    """

    names: tuple[str, ...]
    parse: Callable[[Any, str], str | None]


@dataclass(frozen=True)
class InputColumns:
    """The columns of the input by their roles.

    Attributes:
        texts: The columns that are read as strings, by the column of a shard.
        media: Columns of pictures and sounds, by the prefix of the columns of a shard.
        id: Names of the rows; None for their numbers, and for the paths of pictures and sounds that are explained.
        target: The target of each row.
        keep: Columns that are copied to the results.
    """

    texts: Mapping[str, TextColumn]
    media: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    target: str | None = None
    keep: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Return the names of the columns that are read, without duplicates."""
        texts = [name for column in self.texts.values() for name in column.names]
        named = [*texts, *self.media.values(), self.id, self.target, *self.keep]
        return list(dict.fromkeys(name for name in named if name is not None))

    def check(self, names: Sequence[str], result_columns: Collection[str]) -> None:
        """Check the columns against those of the input and of the results.

        Args:
            names: The columns of the input; none for a stream, whose blocks are checked one by one.
            result_columns: The columns of the results beside the kept ones.

        Raises:
            DataError: If a column is missing or twice there, or one that is kept has the name of a result.
        """
        for name in self.names:
            if names and name not in names:
                raise DataError(f"no column {name!r} in the input; there are {', '.join(names)}")
        if names:
            check_columns(names, self.names)
        for name in self.keep:
            if name in result_columns:
                raise DataError(f"column {name!r} cannot be kept: the results have one of that name; rename it")


@dataclass(frozen=True)
class WrittenShard:
    """A written shard.

    Attributes:
        shard: Its number.
        first: The number of its first row.
        rows: How many input rows it has.
        errors: How many of them have no result.
        tokens: Tokens explained.
        digest: The digest of its input rows.
    """

    shard: Index
    first: Index
    rows: Index
    errors: Index
    tokens: Index
    digest: str


@dataclass(frozen=True)
class Shard:
    """Contiguous rows of the input.

    Attributes:
        index: Its number.
        first: The number of its first row.
        table: `row`, `id`, `target`, the strings of `InputColumns.texts`, the fields of `MediumCell` behind each prefix
            of `InputColumns.media`, and kept columns behind `KEPT`; `problem` says why a row cannot be read.
        digest: The digest of everything that results depend on.
        fraction: Share of the input read with it.
    """

    index: int
    first: int
    table: Any
    digest: str
    fraction: float


def read_shards(source: RowSource, columns: InputColumns, size: int) -> Iterator[Shard]:
    """Read a source shard by shard."""
    arrow = arrow_module()
    tables: list[Any] = []
    waiting_rows = index = row = 0
    fraction = 0.0
    kept_types: dict[str, Any] = {}  # types, as the first block has them
    for block in source.blocks(columns.names):
        table = _normalised(arrow, block, columns, row, kept_types)
        row, fraction_before, fraction = row + len(table), fraction, block.fraction
        tables.append(table)
        waiting_rows += len(table)
        while waiting_rows >= size:
            table = arrow.concat_tables(tables)
            tables, waiting_rows, index = [table.slice(size)], waiting_rows - size, index + 1
            unread_share_of_block = min(waiting_rows / max(len(block.problems), 1), 1.0)
            yield _shard(
                table.slice(0, size), index - 1, fraction - unread_share_of_block * (fraction - fraction_before)
            )
    if waiting_rows:
        yield _shard(arrow.concat_tables(tables), index, fraction)


def left_shards(
    source: RowSource,
    columns: InputColumns,
    size: int,
    written: Mapping[int, WrittenShard],
    skipped: Callable[[float], None] | None = None,
) -> Iterator[Shard]:
    """Read the shards that are not written yet; check that the written ones have the same rows.

    Args:
        source: Where to read.
        columns: Which columns.
        size: Rows of a shard.
        written: The shards that are written.
        skipped: Called with the share of the input that is done.
    """
    expected_indices, rows = set(written), 0
    for shard in read_shards(source, columns, size):
        written_shard, rows = written.get(shard.index), rows + len(shard.table)
        expected_indices.discard(shard.index)
        if written_shard is None:
            yield shard
        elif (written_shard.digest, written_shard.rows) != (shard.digest, len(shard.table)):
            last_row = written_shard.first + written_shard.rows - 1
            raise DataError(
                f"rows {written_shard.first} to {last_row} of the input have changed since they were explained; give "
                "another --output, or the input as it was"
            )
        elif skipped is not None:
            skipped(shard.fraction)
    if expected_indices:
        last = written[max(expected_indices)]
        raise DataError(
            f"the input has {rows} rows, and {last.first + last.rows} were explained before; give another --output, or "
            "the input as it was"
        )


def _shard(table: Any, index: int, fraction: float) -> Shard:
    table = table.combine_chunks()
    return Shard(index, table["row"][0].as_py(), table, _digest(table), fraction)


def _digest(table: Any) -> str:
    """Return a digest of values that does not depend on the format from which they were read."""
    arrow = arrow_module()
    columns = {
        name: column.cast(column.type.value_type) if arrow.types.is_dictionary(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    # A copy: a slice keeps bytes behind nulls, and those of the next rows as padding.
    copy = arrow.table(columns).take(arrow.array(np.arange(len(table))))
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, copy.schema) as writer:
        writer.write_table(copy)
    return hashlib.blake2b(sink.getvalue(), digest_size=12).hexdigest()


def _normalised(arrow: Any, block: RowBlock, columns: InputColumns, first_row: int, kept_types: dict[str, Any]) -> Any:
    """Return a block of rows as a table with the columns of a shard."""
    problems = list(block.problems)
    rows = arrow.array(np.arange(first_row, first_row + len(problems)), arrow.int64())
    table: dict[str, Any] = {"row": rows, "id": rows.cast(arrow.string())}
    for prefix, name in columns.media.items():
        from .media import media_columns  # needs the wing `media`

        table |= media_columns(arrow, block.cells(name), name, problems, prefix)
    if "text" in table:  # the paths of pictures or sounds
        table["id"] = arrow.compute.coalesce(table["text"], table["id"])
    if columns.id is not None:
        # Not its number alone: another row may have the id "7".
        row_names = arrow.array([f"row {row}" for row in rows.to_pylist()], arrow.string())
        table["id"] = arrow.compute.coalesce(_as_strings(arrow, block.columns[columns.id], columns.id), row_names)
    table |= {name: _parsed_texts(arrow, block, column, problems) for name, column in columns.texts.items()}
    if columns.target is not None:
        table["target"] = _as_strings(arrow, block.columns[columns.target], columns.target)
    for name in columns.keep:
        table[KEPT + name] = _kept(arrow, block.columns[name], name, kept_types, problems)
    return arrow.table({**table, "problem": arrow.array(problems, arrow.string())})


def _parsed_texts(arrow: Any, block: RowBlock, column: TextColumn, problems: list[str | None]) -> Any:
    """Return the cells of a column as strings; a cell that cannot be read becomes its row's problem."""
    described = f"column {' and '.join(map(repr, column.names))}"
    strings: list[str | None] = []
    for row, cell in enumerate(_cells(block, column.names)):
        try:
            strings.append(column.parse(cell, described))
        except ValueError as error:  # noqa: PERF203  # of this row alone
            strings.append(None)
            problems[row] = problems[row] or str(error)
    return arrow.array(strings, arrow.string())


def _cells(block: RowBlock, names: Sequence[str]) -> Iterable[Any]:
    """Return the cells of a column; of several columns, a mapping for each row, None if all cells are null."""
    columns: list[list[Any]] = [_without_nulls(block.cells(name)) for name in names]
    if len(columns) == 1:
        return columns[0]
    rows = zip(*columns, strict=True)
    return (None if all(cell is None for cell in row) else dict(zip(names, row, strict=True)) for row in rows)


def _without_nulls(value: Any) -> Any:
    """Return a value without null fields; Arrow's structs, and JSON made of them, have the fields of all rows."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _array(arrow: Any, column: Any) -> Any:
    """Return a column as an Arrow array; bytes, and values of mixed types, become strings."""
    if not isinstance(column, list):
        return column
    if not any(isinstance(value, bytes) for value in column):
        with suppress(arrow.ArrowInvalid, arrow.ArrowTypeError, UnicodeError, OverflowError):
            return arrow.array(column)
    texts = (value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in column)
    strings = (text if text is None or isinstance(text, str) else json.dumps(text, default=str) for text in texts)
    return arrow.array([text and text.encode("utf-8", "replace").decode("utf-8") for text in strings], arrow.string())


def _as_strings(arrow: Any, column: Any, name: str) -> Any:
    """Return ids or targets as strings, numbers in digits."""
    values = _array(arrow, column)
    try:
        return values.cast(arrow.string())
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
        raise DataError(f"column {name!r} holds {values.type}; ids and targets are strings or numbers") from None


def _kept(arrow: Any, column: Any, name: str, kept_types: dict[str, Any], problems: list[str | None]) -> Any:
    """Return a kept column in the type of its first block; a value that does not fit is its row's problem."""
    array = _array(arrow, column)
    kind = kept_types.setdefault(name, arrow.string() if arrow.types.is_null(array.type) else array.type)
    refused = (arrow.ArrowInvalid, arrow.ArrowNotImplementedError)
    try:
        return array.cast(kind)
    except refused:
        pass
    values: list[Any] = []
    for row, value in enumerate(array):
        try:
            values.append(value.cast(kind).as_py())
        except refused:  # noqa: PERF203  # of this row alone
            values.append(None)
            reason = f"column {name!r} holds {str(value)[:60]!r}, where it held {kind} before"
            problems[row] = problems[row] or reason
    return arrow.array(values, kind)
