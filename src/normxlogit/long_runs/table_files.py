"""Files of tables and of lines as sources of rows.

pyarrow reads Parquet and Arrow, Python reads lines and CSV. DuckDB and pyarrow's reader of CSV leave rows out that they
cannot read, without their numbers; here a row that cannot be read keeps its place (measured with DuckDB 2.0).
"""

import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

from ..errors import DataError, reason_of
from .csv_file import CsvFile
from .lines import encoding_of_file, rows_of_lines
from .tables import (
    BLOCK,
    ClassNames,
    RowBlock,
    RowSource,
    arrow_module,
    blocks_of_table,
    check_columns,
    class_names_in,
    source_of_rows,
)

ARROW_FILE = b"ARROW1"
"""With what an Arrow file begins and ends."""

START_OF_STREAM = 8
"""Bytes of an Arrow file before the stream of its rows."""

Format = Literal["parquet", "jsonl", "csv", "tsv", "arrow", "text"]

SUFFIXES: Mapping[str, Format] = {
    ".parquet": "parquet",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    ".csv": "csv",
    ".tsv": "tsv",
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".txt", ".text"), "text"),
}
"""The formats of files by their names; `.json`, too, may hold lines or an array of objects."""


def source_of_file(open_file: Callable[[], Any], name: str, kind: str, size: int = 0) -> RowSource:
    """Return the source of a file of a table or of lines, which raises `DataError` where it cannot be read.

    Args:
        open_file: Opens the file for bytes; it is opened anew for each reading.
        name: Its name, for errors.
        kind: Its format, one of `Format`.
        size: Its bytes, by which the share that is read is told; 0 if that is not needed.
    """
    opened = partial(_opened, open_file, name, kind, size)

    def names() -> list[str]:
        """Return the names of the columns."""
        with opened() as table:
            return table.names()

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        with opened() as table:
            if kind != "jsonl":  # rows of JSON may lack a column
                check_columns(table.names(), columns)
            yield from table.blocks(columns)

    def class_names() -> ClassNames:
        """Return the names of classes by their columns."""
        with opened() as table:
            return table.class_names()

    return RowSource(names, blocks, [name], class_names)


@contextmanager
def _opened(open_file: Callable[[], Any], name: str, kind: str, size: int) -> Iterator[RowSource]:
    """Open a file while a `with` statement runs; yield the source of its rows, whose blocks can be read once.

    Args:
        open_file: As in `source_of_file`.
        name: As in `source_of_file`.
        kind: As in `source_of_file`.
        size: As in `source_of_file`.

    Raises:
        DataError: If it cannot be opened or read.
    """
    arrow = arrow_module()
    try:
        with open_file() as file:
            yield _source_in_file(file, kind, size)
    except DataError as error:  # of what the file holds, which does not know its name
        raise DataError(f"{name}: {error}") from None
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"cannot read {name}: {reason_of(error)}") from None
    except (ValueError, arrow.ArrowException) as error:
        raise DataError(f"{name}: not {kind}: {reason_of(error)}") from None


def _source_in_file(file: Any, kind: str, size: int) -> RowSource:
    """Return the source of the rows in an open file; the arguments are those of `source_of_file`."""

    def fraction() -> float:
        """Return the share of the file that is read; 0 if its size is not known."""
        return min(file.tell() / size, 1.0) if size else 0.0

    if kind == "parquet":
        return _parquet(file)
    if kind == "arrow":
        return _arrow(file, fraction)
    if kind in ("csv", "tsv"):
        csv_file = CsvFile(file, kind, fraction)
        return RowSource(lambda: csv_file.names, csv_file.blocks)
    return source_of_rows(rows_of_lines(file, kind, encoding_of_file(file)), fraction)


def _parquet(file: Any) -> RowSource:
    """Return the source of an open Parquet file."""
    from ..results.storage.columns import parquet_file

    reader = parquet_file(file)
    batches = partial(reader.iter_batches, BLOCK, use_threads=False)
    row_count = max(reader.metadata.num_rows, 1)  # also of a file without rows
    return _source_of_batches(reader.schema_arrow, batches, lambda rows_read: rows_read / row_count)


def _arrow(file: Any, fraction: Callable[[], float]) -> RowSource:
    """Return the source of an open Arrow stream, as `datasets` writes it, or of an Arrow file.

    A file holds a stream between its marks, `ARROW_FILE`, and is read as one: Arrow's own reader of files would read
    their parts in its threads, see `parquet_file`.

    Args:
        file: The file of bytes.
        fraction: Returns the share of the file that is read.
    """
    arrow = arrow_module()
    is_file = file.read(len(ARROW_FILE)) == ARROW_FILE
    if is_file:
        file.seek(-len(ARROW_FILE), os.SEEK_END)
        if file.read() != ARROW_FILE:
            raise ValueError("it has no end")
    file.seek(START_OF_STREAM if is_file else 0)
    reader = arrow.ipc.open_stream(file)
    # A stream is read whole, whichever columns are needed.
    return _source_of_batches(reader.schema, lambda columns: reader, lambda rows_read: fraction())


def _source_of_batches(
    schema: Any, batches: Callable[..., Iterable[Any]], fraction: Callable[[int], float]
) -> RowSource:
    """Return the source of the rows of a Parquet or Arrow file.

    Args:
        schema: Arrow's schema of the rows.
        batches: Returns record batches of Arrow with all rows and at least the given `columns`.
        fraction: Returns the share of the file that is read, from the number of rows that are read.
    """

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        rows_read = 0
        for record_batch in batches(columns=list(columns)):
            rows_read += record_batch.num_rows
            table = arrow_module().Table.from_batches([record_batch]).select(list(columns))
            table.validate(full=True)  # a damaged file may hold offsets that point outside its memory
            for block in blocks_of_table(table):
                yield RowBlock.of(block, fraction(rows_read))

    return RowSource(lambda: list(schema.names), blocks, class_names=lambda: class_names_in(schema))
