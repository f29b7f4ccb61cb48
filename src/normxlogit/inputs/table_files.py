"""Files of tables and of lines, read block by block, each row with its values or with the reason why it has none.

pyarrow reads Parquet and Arrow, Python reads lines and CSV. DuckDB and pyarrow's reader of CSV leave rows out that they
cannot read, without their numbers; here a row that cannot be read keeps its place (measured with DuckDB 2.0).
"""

import csv
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal

from ..errors import DataError, reason_of
from .text_files import UTF16, dialect_of, encoding_of

BLOCK = 4096
"""Rows read at a time."""

LONGEST = 8 << 20
"""Most characters of a cell of CSV."""

END_MARK = "\x1elast"
"""A line that is appended to a CSV file. Where it does not come back as a row of its own, a quote was left open."""

OPEN_QUOTE = "a quote is not closed: the rows after it were read as one, or not at all"

NO_TEXT = "UTF-16, or no text at all; save it as UTF-8"

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

InputRow = Mapping[str, Any] | str
"""The values of a row, or the reason why it cannot be read."""


@dataclass(frozen=True)
class RowBlock:
    """Some rows of a source.

    Attributes:
        columns: The requested columns: Arrow arrays, or lists of Python values where rows may hold any.
        problems: Why a row cannot be read, None for each that can.
        fraction: Share of the source read so far, 0 if that is not known.
    """

    columns: Mapping[str, Any]
    problems: Sequence[str | None]
    fraction: float

    @classmethod
    def of(cls, table: Any, fraction: float) -> "RowBlock":
        """Return the rows of an Arrow table."""
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        return cls(columns, [None] * len(table), fraction)

    def cells(self, name: str) -> list[Any]:
        """Return the cells of a column as Python values."""
        column = self.columns[name]
        return column if isinstance(column, list) else list(column.to_pylist(maps_as_pydicts="strict"))


@dataclass(frozen=True)
class Reader:
    """An open file.

    Attributes:
        names: The names of its columns; of JSON lines those in the first block.
        blocks: Reads some of the columns, once.
    """

    names: list[str]
    blocks: Callable[[Sequence[str]], Iterator[RowBlock]]


def arrow_module() -> Any:
    """Import pyarrow.

    Raises:
        DataError: If it is missing.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        missing = "tables need pyarrow: pip install 'normxlogit[scale]', or 'normxlogit[eval]' for evaluations"
        raise DataError(missing) from None
    return pyarrow


@contextmanager
def open_table(open_file: Callable[[], Any], name: str, kind: str, size: int = 0) -> Iterator[Reader]:
    """Open a file of a table or of lines.

    Args:
        open_file: Opens it in binary mode.
        name: What errors call it.
        kind: Its `Format`.
        size: Its length in bytes; 0 if that is not known.

    Raises:
        DataError: If it cannot be read, also while the block reads it.
    """
    arrow = arrow_module()
    try:
        with open_file() as file:
            yield _reader(file, kind, size)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"cannot read {name}: {reason_of(error)}") from None
    except (ValueError, arrow.ArrowException) as error:
        raise DataError(f"{name}: not {kind}: {reason_of(error)}") from None


def _reader(file: Any, kind: str, size: int) -> Reader:
    """Return the reader of an open file."""
    if kind == "parquet":
        return _parquet(file)
    if kind == "arrow":
        return _arrow(file, size)
    fraction = (lambda: min(file.tell() / size, 1.0)) if size else lambda: 0.0
    if kind in ("csv", "tsv"):
        return _csv(file, kind, fraction)
    encoding = encoding_of(file.read(len(UTF16[0])))
    file.seek(0)
    rows = rows_of_lines(file, kind, encoding)
    first = list(islice(rows, BLOCK))
    return Reader(row_names(first), lambda columns: row_blocks(chain(first, rows), columns, fraction))


def _parquet(file: Any) -> Reader:
    reader = arrow_module().parquet.ParquetFile(file, page_checksum_verification=True)
    total = max(reader.metadata.num_rows, 1)

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        rows_read = 0
        for batch in reader.iter_batches(batch_size=BLOCK, columns=list(columns)):
            rows_read += batch.num_rows
            yield RowBlock.of(_checked(batch, columns), rows_read / total)

    return Reader(list(reader.schema_arrow.names), blocks)


def _arrow(file: Any, size: int) -> Reader:
    """Return a reader of an Arrow file, or of a stream of `size` bytes."""
    arrow = arrow_module()
    is_file = file.read(6) == b"ARROW1"  # otherwise a stream, as `datasets` writes it
    file.seek(0)
    reader = arrow.ipc.open_file(file) if is_file else arrow.ipc.open_stream(file)

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        count = reader.num_record_batches if is_file else 0
        batches = map(reader.get_batch, range(count)) if is_file else reader
        for number, batch in enumerate(batches, 1):
            fraction = number / count if is_file else file.tell() / max(size, 1)
            for table in sliced(_checked(batch, columns)):
                yield RowBlock.of(table, min(fraction, 1.0))

    return Reader(list(reader.schema.names), blocks)


def _checked(batch: Any, columns: Sequence[str]) -> Any:
    """Return some columns of a batch as a table."""
    table = arrow_module().Table.from_batches([batch]).select(list(columns))
    table.validate(full=True)
    return table


def sliced(table: Any) -> Iterator[Any]:
    """Yield a table in blocks; views, which Polars writes and Arrow's `take` does not know, as plain values."""
    arrow = arrow_module()
    for start in range(0, len(table), BLOCK):
        block = table.slice(start, BLOCK)
        columns = {
            name: arrow.array(column.to_pylist()) if "view" in str(column.type) else column
            for name, column in zip(block.column_names, block.columns, strict=True)
        }
        yield arrow.table(columns)


def _csv(file: Any, kind: str, fraction: Callable[[], float]) -> Reader:
    """Return a reader of a CSV or TSV file; `fraction` returns the share of the file that is read."""
    dialect = dialect_of(file, kind)
    # A cell that is not UTF-8 is a problem of its row, not of the file.
    lines = io.TextIOWrapper(file, dialect.encoding, "surrogateescape", newline="")
    reader = csv.reader(chain(lines, [END_MARK]), delimiter=dialect.delimiter)
    names = next(iter(_next_rows(reader, 1))) or [""]
    if names == [END_MARK]:
        raise ValueError("the file is empty")
    if "\0" in names[0]:
        raise ValueError(NO_TEXT)
    if names[-1].endswith(END_MARK):
        raise DataError(OPEN_QUOTE)

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        ended = False
        while rows := _next_rows(reader, BLOCK):
            if dialect.delimiter == "\t":
                _check_cells(names, rows)
            ended = rows[-1] == [END_MARK]
            rows = [row or [""] * len(names) for row in (rows[:-1] if ended else rows)]  # an empty line
            problems = [
                None if len(row) == len(names) else f"the row has {len(row)} columns instead of {len(names)}"
                for row in rows
            ]
            usable = ([None] * len(names) if problem else row for row, problem in zip(rows, problems, strict=True))
            cells = dict(zip(names, zip(*usable, strict=True), strict=False))  # the cells of each column
            yield RowBlock({name: _decoded(cells.get(name, ())) for name in columns}, problems, fraction())
        if not ended:
            raise DataError(OPEN_QUOTE)
        lines.detach()  # the file is closed by who opened it

    return Reader(names, blocks)


def _next_rows(reader: Iterator[list[str]], count: int) -> list[list[str]]:
    """Return up to `count` further rows."""
    limit = csv.field_size_limit(LONGEST)  # of the whole process
    try:
        return list(islice(reader, count))
    except csv.Error as error:
        raise ValueError(error) from None
    finally:
        csv.field_size_limit(limit)


def _decoded(cells: Sequence[Any]) -> Any:
    """Return cells as an Arrow array; if some are not UTF-8, as a list in which those are bytes."""
    arrow = arrow_module()
    try:
        return arrow.array(cells, arrow.string())
    except UnicodeEncodeError:
        return [cell and _decoded_cell(cell) for cell in cells]


def _decoded_cell(cell: str) -> str | bytes:
    """Return a text, or its bytes if they are not UTF-8."""
    content = cell.encode("utf-8", "surrogateescape")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content


def _check_cells(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Refuse a tab-separated table in which a cell holds a tab and a line end.

    Such tables are mostly written without quoting, and then quotes in two rows make one cell of all between them.
    """
    for name, cell in (pair for row in rows for pair in zip(names, row, strict=False)):
        if "\t" in cell and "\n" in cell:
            raise DataError(
                f"a cell of the column {name!r} reaches over several rows, from {cell.splitlines()[0][:40]!r} on, as "
                "quotes in texts do where a file is written without quoting; write it as JSONL, or with the quotes "
                "doubled"
            )


def rows_of_lines(file: Any, kind: str, encoding: str = "utf-8-sig") -> Iterator[InputRow]:
    """Read lines as rows; empty lines of JSON are skipped, and a JSON array gives a row for each entry.

    Raises:
        ValueError: If they are not UTF-8.
    """
    lines = io.TextIOWrapper(file, encoding, "surrogateescape", newline="\n")
    for number, line in enumerate(lines):
        if not number and "\0" in line:
            raise ValueError(NO_TEXT)
        if not number and kind == "jsonl" and line.lstrip().startswith("["):
            yield from map(_object, _parsed(line + lines.read()))
        elif kind == "text":
            yield {"text": _decoded_cell(line.rstrip("\r\n"))}
        elif line.strip():
            try:
                yield _object(_parsed(line))
            except ValueError as error:
                yield f"not JSON: {error}"
    lines.detach()  # the file is closed by who opened it


def _parsed(content: str) -> Any:
    """Return what is written as JSON."""
    try:
        return json.loads(content.encode("utf-8", "surrogateescape"))
    except RecursionError as error:
        raise ValueError(error) from None


def _object(value: Any) -> InputRow:
    return value if isinstance(value, dict) else "not a JSON object"


def row_names(rows: Iterable[InputRow]) -> list[str]:
    """Return the names in rows, in their order."""
    return list(dict.fromkeys(name for row in rows if not isinstance(row, str) for name in row))


def row_blocks(rows: Iterable[InputRow], columns: Sequence[str], fraction: Callable[[], float]) -> Iterator[RowBlock]:
    """Read some values of rows, block by block."""
    rows = iter(rows)
    while part := list(islice(rows, BLOCK)):
        values = {name: [None if isinstance(row, str) else row.get(name) for row in part] for name in columns}
        yield RowBlock(values, [row if isinstance(row, str) else None for row in part], fraction())


def check_columns(names: Iterable[str], requested: Sequence[str]) -> None:
    """Refuse names of columns that do not exist or exist several times."""
    existing = list(names)
    for name in requested:
        if name not in existing:
            raise DataError(f"no column {name!r}; there are {', '.join(map(repr, existing))}")
        if existing.count(name) > 1:
            raise DataError(f"{existing.count(name)} columns are called {name!r}; rename all but one")
