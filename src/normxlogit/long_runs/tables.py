"""Sources of rows: tables, files of them and rows in memory, read block by block.

Each row comes with its values, or with the reason why it has none.

pyarrow reads Parquet and Arrow, Python reads lines and CSV. DuckDB and pyarrow's reader of CSV leave rows out that they
cannot read, without their numbers; here a row that cannot be read keeps its place (measured with DuckDB 2.0).
"""

import csv
import io
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Literal

from ..errors import DataError, optional_module, reason_of
from ..inputs.label_names import class_names_of
from ..inputs.texts import UTF16, collected, encoding_of, is_column

BLOCK = 4096
"""Rows read at a time."""

LONGEST = 8 << 20
"""Most characters of a cell of CSV."""

END_MARK = "\x1elast"
"""A line that is appended to a CSV file. Where it does not come back as a row of its own, a quote was left open."""

OPEN_QUOTE = "a quote is not closed: the rows after it were read as one, or not at all"

DELIMITERS = (",", ";", "\t", "|")
"""What stands between values: Excel writes semicolons where numbers have decimal commas."""

SAMPLE = 1 << 16
"""Most characters of the line with the names by which the delimiter of a table is told."""

ARROW_FILE = b"ARROW1"
"""With what an Arrow file begins and ends."""

START_OF_STREAM = 8
"""Bytes of an Arrow file before the stream of its rows."""

MAPPINGS = 'its rows as mappings such as {"text": "..."}'

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

ClassNames = Mapping[str, Sequence[str]]
"""The names of whole numbers from 0 on, by columns."""

InputRow = Mapping[str, Any] | str
"""The values of a row, or the reason why it cannot be read."""


@dataclass(frozen=True)
class RowBlock:
    """Some rows of a source."""

    columns: Mapping[str, Any]  # the requested columns: Arrow arrays, or lists of Python values where rows may hold any
    problems: Sequence[str | None]  # why a row cannot be read, None for each that can
    fraction: float  # share of the source read so far, 0 if that is not known

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
class RowSource:
    """Where rows come from."""

    names: Callable[[], list[str]]  # returns the names of the columns; of JSON lines those in the first block
    blocks: Callable[[Sequence[str]], Iterator[RowBlock]]  # reads some columns of all rows, in their order
    parts: Sequence[str] = ("rows in memory",)  # the names of what is read, such as files
    class_names: Callable[[], ClassNames] = dict  # returns the names of classes by their columns, where it has such


def arrow_module() -> Any:
    """Import pyarrow."""
    missing = "tables need pyarrow: pip install 'normxlogit[scale]', or 'normxlogit[eval]' for evaluations"
    for name in ("pyarrow.compute", "pyarrow.parquet"):
        optional_module(name, missing)
    return optional_module("pyarrow", missing)


# --- files ------------------------------------------------------------------------------------------------------------


def source_of_file(open_file: Callable[[], Any], name: str, kind: str, size: int = 0) -> RowSource:
    """Return the source of a file of a table or of lines, which raises `DataError` where it cannot be read."""

    def names() -> list[str]:
        with _opened(open_file, name, kind, size) as table:
            return table.names()

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        with _opened(open_file, name, kind, size) as table:
            if kind != "jsonl":  # rows of JSON may lack a column
                check_columns(table.names(), columns)
            yield from table.blocks(columns)

    def class_names() -> ClassNames:
        with _opened(open_file, name, kind, size) as table:
            return table.class_names()

    return RowSource(names, blocks, [name], class_names)


@contextmanager
def _opened(open_file: Callable[[], Any], name: str, kind: str, size: int) -> Iterator[RowSource]:
    """Open a file, whose blocks can be read once."""
    arrow = arrow_module()
    try:
        with open_file() as file:
            yield _source_in_file(file, kind, size)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"cannot read {name}: {reason_of(error)}") from None
    except (ValueError, arrow.ArrowException) as error:
        raise DataError(f"{name}: not {kind}: {reason_of(error)}") from None


def _source_in_file(file: Any, kind: str, size: int) -> RowSource:
    """Return the source of the rows in an open file."""
    if kind == "parquet":
        return _parquet(file)
    if kind == "arrow":
        return _arrow(file, size)
    fraction = (lambda: min(file.tell() / size, 1.0)) if size else lambda: 0.0
    if kind in ("csv", "tsv"):
        table = _CsvFile(file, kind, fraction)
        return RowSource(lambda: table.names, table.blocks)
    return source_of_rows(rows_of_lines(file, kind, _encoding_of_file(file)), fraction)


def _parquet(file: Any) -> RowSource:
    from ..results.storage.columns import parquet_file

    reader = parquet_file(file)

    def batches(columns: list[str]) -> Iterator[tuple[Any, float]]:
        total, rows_read = max(reader.metadata.num_rows, 1), 0
        for batch in reader.iter_batches(batch_size=BLOCK, columns=columns, use_threads=False):
            rows_read += batch.num_rows
            yield batch, rows_read / total

    return _source_of_batches(reader.schema_arrow, batches)


def _arrow(file: Any, size: int) -> RowSource:
    """Return the source of an Arrow stream of `size` bytes, as `datasets` writes it, or of an Arrow file.

    A file has a stream between its marks and is read as one: its parts are read by Arrow's threads, see `parquet_file`.
    """
    arrow = arrow_module()
    is_file = file.read(len(ARROW_FILE)) == ARROW_FILE
    if is_file:
        file.seek(-len(ARROW_FILE), os.SEEK_END)
        if file.read() != ARROW_FILE:
            raise ValueError("it has no end")
    file.seek(START_OF_STREAM if is_file else 0)
    reader = arrow.ipc.open_stream(file)

    def batches(_: list[str]) -> Iterator[tuple[Any, float]]:
        for batch in reader:
            yield batch, file.tell() / max(size, 1)

    return _source_of_batches(reader.schema, batches)


def _source_of_batches(schema: Any, batches: Callable[[list[str]], Iterator[tuple[Any, float]]]) -> RowSource:
    """Return the source of Arrow's batches, each with the share of the source that is read with it."""

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        for batch, fraction in batches(list(columns)):
            table = arrow_module().Table.from_batches([batch]).select(list(columns))
            table.validate(full=True)
            for block in _sliced(table):
                yield RowBlock.of(block, min(fraction, 1.0))

    return RowSource(lambda: list(schema.names), blocks, class_names=lambda: class_names_in(schema))


def class_names_in(schema: Any) -> ClassNames:
    """Return the names of classes by their columns, as `datasets` writes them into the schema of a file."""
    metadata = schema.metadata or {}
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return _class_names(features)
    except (ValueError, KeyError, TypeError, AttributeError):  # written by something else
        return {}


def class_names_of_dataset(dataset: Any) -> ClassNames:
    """Return the names of classes of a data set of `datasets` by their columns; none of anything else."""
    features = getattr(dataset, "features", None)
    return _class_names(features) if isinstance(features, Mapping) else {}


def _class_names(features: Mapping[str, Any]) -> ClassNames:
    names = {column: class_names_of(feature) for column, feature in features.items()}
    return {column: of_column for column, of_column in names.items() if of_column}


def _sliced(table: Any) -> Iterator[Any]:
    """Yield a table in blocks; views, which Polars writes and Arrow's `take` does not know, as plain values."""
    arrow = arrow_module()
    for start in range(0, len(table), BLOCK):
        block = table.slice(start, BLOCK)
        columns = {
            name: arrow.array(column.to_pylist()) if "view" in str(column.type) else column
            for name, column in zip(block.column_names, block.columns, strict=True)
        }
        yield arrow.table(columns)


class _CsvFile:
    """A CSV or TSV file, which is read once.

    Args:
        file: The file of bytes.
        kind: "csv" or "tsv".
        fraction: Returns the share of the file that is read.
    """

    def __init__(self, file: Any, kind: str, fraction: Callable[[], float]) -> None:
        self.fraction = fraction
        # A cell that is not UTF-8 is a problem of its row, not of the file: it holds surrogates.
        self.lines = io.TextIOWrapper(file, _encoding_of_file(file), "surrogateescape", newline="")
        self.delimiter = "\t" if kind == "tsv" else self._delimiter()
        # A mark behind the last line: it is a row of its own, or in the last cell where a quote was never closed.
        self.reader = csv.reader(chain(self.lines, [END_MARK]), delimiter=self.delimiter)
        (names,) = _next_rows(self.reader, 1)  # at least the mark
        self.names = names or [""]
        if self.names == [END_MARK]:
            raise ValueError("the file is empty")
        if "\0" in self.names[0]:
            raise ValueError(NO_TEXT)
        if self.names[-1].endswith(END_MARK):
            raise DataError(OPEN_QUOTE)

    def _delimiter(self) -> str:
        """Return the delimiter that divides the line with the names into most cells."""
        line = self.lines.readline(SAMPLE)
        self.lines.seek(0)

        def cell_count(delimiter: str) -> int:
            (names,) = _next_rows(csv.reader([line], delimiter=delimiter), 1)
            return len(names)

        return max(DELIMITERS, key=cell_count)

    def blocks(self, columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        has_ended = False
        while rows := _next_rows(self.reader, BLOCK):
            if self.delimiter == "\t":
                _check_cells(self.names, rows)
            has_ended = rows[-1] == [END_MARK]
            yield self._block(rows[:-1] if has_ended else rows, columns)
        if not has_ended:
            raise DataError(OPEN_QUOTE)
        self.lines.detach()  # the file is closed by who opened it

    def _block(self, rows: list[list[str]], columns: Sequence[str]) -> RowBlock:
        """Return some columns of rows: empty ones of an empty line, none of a row with another number of columns."""
        count = len(self.names)
        problems: list[str | None] = []
        usable: list[Any] = []
        for row in rows:
            is_usable = len(row) in (0, count)
            problems.append(None if is_usable else f"the row has {len(row)} columns instead of {count}")
            usable.append(row or [""] * count if is_usable else [None] * count)
        places = {name: self.names.index(name) for name in columns}
        values = {name: [row[place] for row in usable] for name, place in places.items()}
        return RowBlock(values, problems, self.fraction())


def _encoding_of_file(file: Any) -> str:
    """Return the encoding of a file of bytes, which is set back to its start."""
    encoding = encoding_of(file.read(len(UTF16[0])))
    file.seek(0)
    return encoding


def _next_rows(reader: Iterator[list[str]], count: int) -> list[list[str]]:
    """Return up to `count` further rows."""
    limit = csv.field_size_limit(LONGEST)  # of the whole process
    try:
        return list(islice(reader, count))
    except csv.Error as error:
        raise ValueError(error) from None
    finally:
        csv.field_size_limit(limit)


def _check_cells(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Refuse a tab-separated table with a tab and a line end in a cell: mostly quotes in a table without quoting."""
    for name, cell in (pair for row in rows for pair in zip(names, row, strict=False)):
        if "\t" in cell and "\n" in cell:
            begin = f"a cell of the column {name!r} reaches over several rows, from {cell.splitlines()[0][:40]!r} on"
            advice = "write it as JSONL, or with the quotes doubled"
            raise DataError(f"{begin}, as quotes in texts do where a file is written without quoting; {advice}")


def rows_of_lines(file: Any, kind: str, encoding: str = "utf-8-sig") -> Iterator[InputRow]:
    """Read lines as rows; empty lines of JSON are skipped, and a JSON array gives a row for each entry."""
    lines = io.TextIOWrapper(file, encoding, "surrogateescape", newline="\n")
    for number, line in enumerate(lines):
        if not number and "\0" in line:
            raise ValueError(NO_TEXT)
        if not number and kind == "jsonl" and line.lstrip().startswith("["):
            yield from map(_object, _parsed(line + lines.read()))
        elif kind == "text":
            yield {"text": line.rstrip("\r\n")}
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


# --- rows and tables in memory ----------------------------------------------------------------------------------------


def source_of_rows(rows: Iterable[InputRow], fraction: Callable[[], float] = lambda: 0.0) -> RowSource:
    """Return the source of rows that can be read only once, whose columns are those of the first rows."""
    rows = iter(rows)
    first = list(islice(rows, BLOCK))  # which may be read again, to look at them
    names = list(dict.fromkeys(name for row in first if not isinstance(row, str) for name in row))

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        remaining = chain(first, rows)
        while part := list(islice(remaining, BLOCK)):
            values = {name: [None if isinstance(row, str) else row.get(name) for row in part] for name in columns}
            yield RowBlock(values, [row if isinstance(row, str) else None for row in part], fraction())

    return RowSource(lambda: names, blocks)


def source_of_table(table: Any) -> RowSource:
    """Return the source of an Arrow table."""

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        for number, block in enumerate(_sliced(table.select(list(columns))), 1):
            yield RowBlock.of(block, min(number * BLOCK / len(table), 1.0))

    return RowSource(lambda: list(table.column_names), blocks, class_names=lambda: class_names_in(table.schema))


def source_in_memory(inputs: Any) -> RowSource:
    """Return the source of rows in memory."""
    arrow, inputs = arrow_module(), collected(inputs)
    if isinstance(inputs, Mapping) and inputs and all(map(is_column, inputs.values())):
        inputs = arrow.table(dict(inputs))
    if to_frame := getattr(inputs, "to_frame", None):  # a column of pandas or Polars
        inputs = to_frame(getattr(inputs, "name", None) or "text")
    if hasattr(inputs, "__arrow_c_stream__"):
        return _of_frame(inputs)
    if not isinstance(inputs, Iterable) or isinstance(inputs, Mapping | bytes):
        raise DataError(f"cannot read rows from a {type(inputs).__name__}; give a table, or {MAPPINGS}")
    return replace(source_of_rows(map(_mapping, inputs)), class_names=lambda: class_names_of_dataset(inputs))


def _of_frame(table: Any) -> RowSource:
    """Return the source of a table; a pandas frame with columns of mixed types is read row by row."""
    arrow = arrow_module()
    try:
        return source_of_table(arrow.table(table))
    except (arrow.ArrowException, TypeError, ValueError) as error:
        if hasattr(table, "notna") and table.columns.is_unique:
            return source_of_rows(table.astype(object).where(table.notna(), None).to_dict("records"))
        problem = f"cannot read this {type(table).__name__} as an Arrow table: {reason_of(error)}"
        raise DataError(f"{problem}; give {MAPPINGS}") from None


def _mapping(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise DataError(f"cannot read a row of type {type(row).__name__}; give {MAPPINGS}")
    return row


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
    """Yield some columns of each row, after the reason why it cannot be read, None for one that can.

    Args:
        source: The rows.
        columns: The names of the columns.
    """
    for block in source.blocks(columns):
        for problem, *row in zip(block.problems, *map(block.cells, columns), strict=True):
            yield problem, dict(zip(columns, row, strict=True))


def check_columns(names: Iterable[str], requested: Sequence[str]) -> None:
    """Refuse names of columns that do not exist or exist several times."""
    existing = list(names)
    for name in requested:
        if name not in existing:
            raise DataError(f"no column {name!r} in the input; there are {', '.join(existing)}")
        if existing.count(name) > 1:
            raise DataError(f"{existing.count(name)} columns are called {name!r}; rename all but one")
