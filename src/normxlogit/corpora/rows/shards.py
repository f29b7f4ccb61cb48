"""Shards of the input: an equal number of consecutive rows, whatever they are read from."""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import DataError
from ...inputs.label_names import with_class_names
from ...long_runs.tables import ClassNames, RowBlock, RowSource, arrow_module, check_columns
from ...results.storage.schema import Index


@dataclass(frozen=True)
class InputColumns:
    """The columns of the input by their roles."""

    cells: Mapping[str, str]  # the columns that a job reads, by the role that they have for it
    media: Sequence[str] = ()  # the roles of those that hold pictures or sounds
    id: str | None = None  # names of the rows; None for their numbers, or the paths of pictures and sounds
    keep: tuple[str, ...] = ()  # columns that are copied to the results
    class_names: ClassNames = field(default_factory=dict)  # what the whole numbers of columns stand for, in a data set

    @property
    def names(self) -> list[str]:
        """Return the names of the columns that are read, without duplicates."""
        named = [*self.cells.values(), self.id, *self.keep]
        return list(dict.fromkeys(name for name in named if name is not None))

    def check(self, names: Sequence[str], result_columns: Collection[str]) -> None:
        """Check the columns against those of the input and of the results.

        Args:
            names: The columns of the input.
            result_columns: Those of the results, which no kept column can have.

        Raises:
            DataError: If a column is not there, or cannot be kept.
        """
        if names:  # an input without rows may have no columns
            check_columns(names, self.names)
        for name in self.keep:
            if name in result_columns:
                raise DataError(f"column {name!r} cannot be kept: the results have one of that name; rename it")


@dataclass(frozen=True)
class WrittenShard:
    """What the file of a written shard says of it."""

    shard: Index  # its number
    first: Index  # the number of its first row
    rows: Index  # how many input rows it has
    errors: Index  # how many of them have no result
    tokens: Index  # tokens explained
    digest: str  # the digest of its input rows


WrittenShards = dict[int, WrittenShard]
"""The shards of a folder by their numbers, in their order."""


class Finished(NamedTuple):
    """A shard that a run has written."""

    shard: WrittenShard
    fraction: float  # the share of the input that was read up to its end


class Row(NamedTuple):
    """A row of the input."""

    number: int
    id: str
    cells: Mapping[str, Any]  # what a job reads of it, by the roles of the columns
    stamps: Sequence[str]  # size and time of the files that it names, by which a resumed run sees a replaced one
    problem: str | None  # why it cannot be read; None if it can


@dataclass(frozen=True)
class Shard:
    """Consecutive rows of the input."""

    index: int  # its number
    rows: Sequence[Row]
    kept: Any  # the columns that are copied to the results, as an Arrow table
    digest: str  # the digest of everything that results depend on
    fraction: float  # the share of the input that was read up to its end


def read_shards(source: RowSource, columns: InputColumns, size: int) -> Iterator[Shard]:
    """Read a source shard by shard.

    Args:
        source: The rows.
        columns: The columns that are read.
        size: Rows of a shard.
    """
    arrow = arrow_module()
    rows: list[Row] = []  # that are read and in no shard yet
    kept: Any = None  # their kept columns, as an Arrow table
    index = 0  # of the next shard
    row_count = 0  # how many rows are read
    fraction = 0.0  # the share of the input that is read
    kept_types: dict[str, Any] = {}  # Arrow types of the kept columns, as the first block has them
    for block in source.blocks(columns.names):
        problems = list(block.problems)  # to which `_kept` adds
        kept_of_block = arrow.table(
            {name: _kept(arrow, block.columns[name], name, kept_types, problems) for name in columns.keep}
        )
        kept = kept_of_block if kept is None else arrow.concat_tables([kept, kept_of_block])
        rows += _rows_of(block, columns, row_count, problems)
        row_count += len(problems)
        fraction_of_block = block.fraction - fraction
        fraction = block.fraction
        while len(rows) >= size:
            # Of the rows of the block, which are the last ones that are read; others may be of the block before.
            share_after_shard = min((len(rows) - size) / max(len(problems), 1), 1.0)
            yield _shard(index, rows[:size], kept.slice(0, size), fraction - share_after_shard * fraction_of_block)
            rows = rows[size:]
            kept = kept.slice(size)
            index += 1
    if rows:
        yield _shard(index, rows, kept, fraction)


def remaining_shards(
    source: RowSource,
    columns: InputColumns,
    size: int,
    written: WrittenShards,
    skipped: Callable[[float], None] | None = None,
) -> Iterator[Shard]:
    """Yield the shards that are not written yet; check that the written ones have the same rows.

    Args:
        source: The rows.
        columns: The columns that are read.
        size: Rows of a shard.
        written: The shards of earlier runs.
        skipped: Called for each of these with the share of the input that is read with it.

    Raises:
        DataError: If the input has other rows than those that were explained, or fewer.
    """
    expected_indices = set(written)
    rows = 0
    for shard in read_shards(source, columns, size):
        written_shard = written.get(shard.index)
        rows += len(shard.rows)
        expected_indices.discard(shard.index)
        if written_shard is None:
            yield shard
        elif (written_shard.digest, written_shard.rows) != (shard.digest, len(shard.rows)):
            last_row = written_shard.first + written_shard.rows - 1
            changed = f"rows {written_shard.first} to {last_row} of the input have changed since they were explained"
            raise DataError(f"{changed}; give another --output, or the input as it was")
        elif skipped is not None:
            skipped(shard.fraction)
    if expected_indices:
        last = written[max(expected_indices)]
        fewer = f"the input has {rows} rows, and {last.first + last.rows} were explained before"
        raise DataError(f"{fewer}; give another --output, or the input as it was")


def _shard(index: int, rows: Sequence[Row], kept: Any, fraction: float) -> Shard:
    """Return a shard with the digest of its rows and their kept columns."""
    # A key that JSON refuses, and its value, do not count (`skipkeys`).
    content = json.dumps([rows, kept.to_pydict()], default=_digestible, skipkeys=True)
    digest = hashlib.blake2b(content.encode(), digest_size=12).hexdigest()
    return Shard(index, rows, kept, digest, fraction)


def _digestible(value: Any) -> Any:
    """Return a value that JSON has no type for as one that it has; different values stay different."""
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):  # also a picture of Pillow
        array = np.asarray(value)
        return [str(array.dtype), array.shape, hashlib.blake2b(array.tobytes(), digest_size=12).hexdigest()]
    is_bytes = isinstance(value, bytes | bytearray | memoryview)
    return hashlib.blake2b(value, digest_size=12).hexdigest() if is_bytes else str(value)


def _rows_of(block: RowBlock, columns: InputColumns, first: int, problems: list[str | None]) -> Iterator[Row]:
    """Yield the rows of a block.

    Args:
        block: N rows as they are read.
        columns: The columns by their roles.
        first: The number of the first row.
        problems: Why each row cannot be read, (N,); None for one that can.
    """
    cells_of_role = {
        role: _cells(block, name, columns.class_names.get(name, ())) for role, name in columns.cells.items()
    }
    id_cells = [None] * len(problems) if columns.id is None else block.cells(columns.id)
    for place, problem in enumerate(problems):
        number = first + place
        cells = {role: of_rows[place] for role, of_rows in cells_of_role.items()}
        stamps = [_stamp_of(cells[role]) for role in columns.media]
        yield Row(number, _row_name(columns, cells, id_cells[place], number), cells, stamps, problem)


def _row_name(columns: InputColumns, cells: Mapping[str, Any], id_cell: Any, number: int) -> str:
    """Return the id of a row: that of the column of ids, else the path of its picture or sound, else its number.

    Args:
        columns: The columns by their roles.
        cells: The cells of the row, by their roles.
        id_cell: Its cell in the column of ids; None without such a column.
        number: Its number.
    """
    if columns.id is not None:
        name = cell_text(id_cell, columns.id)
        return f"row {number}" if name is None else name  # not the number alone: another row may have the id "7"
    path = _path_of(cells["text"]) if "text" in columns.media else None
    return str(number) if path is None else path


def _cells(block: RowBlock, name: str, class_names: Sequence[str]) -> list[Any]:
    """Return the cells of a column, classes of a data set by their names."""
    return with_class_names(map(_without_nulls, block.cells(name)), class_names)


def _path_of(cell: Any) -> str | None:
    """Return the path of the file that a cell names; None if the cell holds the picture or sound itself."""
    if isinstance(cell, Mapping):  # as `datasets` writes pictures and sounds
        return None if cell.get("bytes") is not None or "array" in cell else _path_of(cell.get("path"))
    return str(cell) if isinstance(cell, str | Path) and str(cell).isprintable() else None


def _stamp_of(cell: Any) -> str:
    """Return the size and the modification time of the file that a cell names; "" if there is none."""
    path = _path_of(cell)
    try:
        state = None if path is None else os.stat(path)
    except (OSError, ValueError):  # whoever reads the row says so
        state = None
    return "" if state is None else f"{state.st_size} {state.st_mtime_ns}"


def cell_text(value: Any, column: str) -> str | None:
    """Return an id or a target as a text, numbers in digits; None for a missing one.

    Args:
        value: The value of a cell.
        column: Its column, for errors.

    Raises:
        DataError: If it is a list or a mapping.
    """
    if isinstance(value, list | dict):
        raise DataError(f"column {column!r} holds {str(value)[:60]}; ids and targets are strings or numbers")
    if isinstance(value, float) and value.is_integer():  # pandas has floats where a whole number is missing
        value = int(value)
    text = _utf8(value)
    return None if text is None else str(text)


def _without_nulls(value: Any) -> Any:
    """Return a value without null fields; Arrow's structs, and JSON made of them, have the fields of all rows."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _array(arrow: Any, column: Any) -> Any:
    """Return a column as an Arrow array; bytes, and values of mixed types, become strings.

    Args:
        arrow: The module pyarrow.
        column: An Arrow array, or a list of Python values.
    """
    if not isinstance(column, list):
        return column
    if not any(isinstance(value, bytes) for value in column):
        with suppress(arrow.ArrowInvalid, arrow.ArrowTypeError, UnicodeError, OverflowError):
            return arrow.array(column)
    return arrow.array(list(map(_string_of, column)), arrow.string())


def _string_of(value: Any) -> Any:
    """Return any value as a text, None as None."""
    if value is not None and not isinstance(value, bytes | str):
        value = json.dumps(value, default=str)
    return _utf8(value)


def _utf8(text: Any) -> Any:
    """Return a text, or bytes of one, with a mark in the place of what UTF-8 cannot write; anything else unchanged."""
    if isinstance(text, str):
        text = text.encode("utf-8", "replace")
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _kept(arrow: Any, column: Any, name: str, kept_types: dict[str, Any], problems: list[str | None]) -> Any:
    """Return a kept column of a block in the type that it has in the first block.

    Args:
        arrow: The module pyarrow.
        column: The column, (N,): an Arrow array, or a list of Python values.
        name: Its name.
        kept_types: The Arrow types of kept columns by their names; that of this one is added if it is missing.
        problems: Why each row cannot be read, (N,); a value that does not fit is added as its row's problem.
    """
    array = _array(arrow, column)
    # A block of nulls has no type of its own.
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
            problems[row] = problems[row] or reason  # the first problem of a row is said
    return arrow.array(values, kind)
