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
from functools import partial
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

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
"""What an error advises to give instead of a table that cannot be read."""

NO_TEXT = "UTF-16, or no text at all; save it as UTF-8"
"""The error for a file whose first line has a zero byte, which UTF-8 writes in no text."""

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
        """Return the cells of a column as Python values."""
        column = self.columns[name]
        return column if isinstance(column, list) else list(column.to_pylist(maps_as_pydicts="strict"))


@dataclass(frozen=True)
class RowSource:
    """Where rows come from.

    Attributes:
        names: Returns the names of the columns; of JSON lines those in the first block.
        blocks: Yields all rows, block by block and in their order, with the columns of the names that it is given.
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


# --- files ------------------------------------------------------------------------------------------------------------


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
    """Open a file, and give its source, whose blocks can be read once, inside the block.

    Raises:
        DataError: If it cannot be opened or read.
    """
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
        csv_file = _CsvFile(file, kind, fraction)
        return RowSource(lambda: csv_file.names, csv_file.blocks)
    return source_of_rows(rows_of_lines(file, kind, _encoding_of_file(file)), fraction)


def _parquet(file: Any) -> RowSource:
    """Return the source of an open Parquet file."""
    from ..results.storage.columns import parquet_file

    reader = parquet_file(file)

    def batches(columns: list[str]) -> Iterator[_Batch]:
        """Yield some columns of all rows."""
        rows_read = 0
        for record_batch in reader.iter_batches(batch_size=BLOCK, columns=columns, use_threads=False):
            rows_read += record_batch.num_rows
            yield _Batch(record_batch, rows_read / max(reader.metadata.num_rows, 1))

    return _source_of_batches(reader.schema_arrow, batches)


def _arrow(file: Any, size: int) -> RowSource:
    """Return the source of an Arrow stream of `size` bytes, as `datasets` writes it, or of an Arrow file.

    Arrow's own reader of files would read their parts in its threads, see `parquet_file`. A file holds a stream between
    its marks, and is read as one.
    """
    arrow = arrow_module()
    is_file = file.read(len(ARROW_FILE)) == ARROW_FILE
    if is_file:
        file.seek(-len(ARROW_FILE), os.SEEK_END)
        if file.read() != ARROW_FILE:
            raise ValueError("it has no end")
    file.seek(START_OF_STREAM if is_file else 0)
    reader = arrow.ipc.open_stream(file)

    def batches(_: list[str]) -> Iterator[_Batch]:
        """Yield all columns of all rows, as a stream is read whole."""
        for record_batch in reader:
            yield _Batch(record_batch, file.tell() / max(size, 1))

    return _source_of_batches(reader.schema, batches)


class _Batch(NamedTuple):
    """Some rows of an Arrow or Parquet file."""

    rows: Any  # a record batch of Arrow
    fraction: float  # the share of the file that is read with them


def _source_of_batches(schema: Any, batches: Callable[[list[str]], Iterator[_Batch]]) -> RowSource:
    """Return the source of Arrow's batches.

    Args:
        schema: Arrow's schema of the rows.
        batches: Yields all rows with at least the columns of the names that it is given.
    """

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        for batch in batches(list(columns)):
            table = arrow_module().Table.from_batches([batch.rows]).select(list(columns))
            table.validate(full=True)  # a damaged file may hold offsets that point outside its memory
            for block in _sliced(table):
                yield RowBlock.of(block, min(batch.fraction, 1.0))

    return RowSource(lambda: list(schema.names), blocks, class_names=lambda: class_names_in(schema))


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


def _sliced(table: Any) -> Iterator[Any]:
    """Yield an Arrow table in blocks of at most `BLOCK` rows.

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


class _CsvFile:
    """A CSV or TSV file, which is read once.

    Args:
        file: The file of bytes.
        kind: "csv" or "tsv".
        fraction: Returns the share of the file that is read.

    Attributes:
        names: The names of the columns, which stand in the first line.
    """

    def __init__(self, file: Any, kind: str, fraction: Callable[[], float]) -> None:
        self._fraction = fraction
        # A cell that is not UTF-8 is a problem of its row, not of the file: it holds surrogates.
        self._lines = io.TextIOWrapper(file, _encoding_of_file(file), "surrogateescape", newline="")
        self._delimiter = "\t" if kind == "tsv" else self._most_dividing_delimiter()
        # A mark behind the last line: it is a row of its own, or in the last cell where a quote was never closed.
        self._reader = csv.reader(chain(self._lines, [END_MARK]), delimiter=self._delimiter)
        (names,) = _next_rows(self._reader, 1)  # there is at least the mark
        self.names = names or [""]
        if self.names == [END_MARK]:
            raise ValueError("the file is empty")
        if "\0" in self.names[0]:
            raise ValueError(NO_TEXT)
        if self.names[-1].endswith(END_MARK):
            raise DataError(OPEN_QUOTE)

    def _most_dividing_delimiter(self) -> str:
        """Return the delimiter that divides the line with the names into most cells."""
        line = self._lines.readline(SAMPLE)
        self._lines.seek(0)

        def cell_count(delimiter: str) -> int:
            """Return into how many cells a delimiter divides the line."""
            (names,) = _next_rows(csv.reader([line], delimiter=delimiter), 1)
            return len(names)

        return max(DELIMITERS, key=cell_count)

    def blocks(self, columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        has_ended = False
        while rows := _next_rows(self._reader, BLOCK):
            if self._delimiter == "\t":
                _check_cells(self.names, rows)
            has_ended = rows[-1] == [END_MARK]
            yield self._block(rows[:-1] if has_ended else rows, columns)
        if not has_ended:
            raise DataError(OPEN_QUOTE)
        self._lines.detach()  # the wrapper would close the file, which who opened it closes

    def _block(self, rows: list[list[str]], columns: Sequence[str]) -> RowBlock:
        """Return some columns of rows.

        An empty line is a row of empty cells. A row with another number of cells than columns has a problem, and its
        cells are None.
        """
        count = len(self.names)
        problems: list[str | None] = []
        whole_rows: list[Any] = []  # each with `count` cells
        for row in rows:
            if len(row) in (0, count):
                problems.append(None)
                whole_rows.append(row or [""] * count)
            else:
                problems.append(f"the row has {len(row)} columns instead of {count}")
                whole_rows.append([None] * count)
        positions = {name: self.names.index(name) for name in columns}
        values = {name: [row[position] for row in whole_rows] for name, position in positions.items()}
        return RowBlock(values, problems, self._fraction())


def _encoding_of_file(file: Any) -> str:
    """Return the encoding of a file of bytes by its first ones, and set it back to its start."""
    encoding = encoding_of(file.read(len(UTF16[0])))
    file.seek(0)
    return encoding


def _next_rows(reader: Iterator[list[str]], count: int) -> list[list[str]]:
    """Return up to `count` further rows of a reader of `csv`; cells may have up to `LONGEST` characters."""
    limit_before = csv.field_size_limit(LONGEST)  # of the whole process, so it is set back
    try:
        return list(islice(reader, count))
    except csv.Error as error:
        raise ValueError(error) from None
    finally:
        csv.field_size_limit(limit_before)


def _check_cells(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Refuse a tab-separated table with a tab and a line end in a cell.

    Such tables are mostly written without quoting, and a quote in a text then joins rows up to the next quote.
    """
    for name, cell in chain.from_iterable(zip(names, row, strict=False) for row in rows):
        if "\t" in cell and "\n" in cell:
            raise DataError(
                f"a cell of the column {name!r} reaches over several rows, from {cell.splitlines()[0][:40]!r} on, as "
                "quotes in texts do where a file is written without quoting; write it as JSONL, or with the quotes "
                "doubled"
            )


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


# --- rows and tables in memory ----------------------------------------------------------------------------------------


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
            values = {name: [mapping.get(name) for mapping in mappings] for name in columns}
            yield RowBlock(values, problems, fraction())

    return RowSource(lambda: names, blocks)


def source_of_table(table: Any) -> RowSource:
    """Return the source of an Arrow table."""

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        for number, block in enumerate(_sliced(table.select(list(columns))), 1):
            yield RowBlock.of(block, min(number * BLOCK / len(table), 1.0))

    return RowSource(lambda: list(table.column_names), blocks, class_names=lambda: class_names_in(table.schema))


def source_in_memory(inputs: Any) -> RowSource:
    """Return the source of rows in memory.

    Args:
        inputs: A table of pandas, Polars or Arrow, a column, a data set, a mapping of columns, or rows as mappings.

    Raises:
        DataError: If rows cannot be read from it.
    """
    arrow, inputs = arrow_module(), collected(inputs)
    if isinstance(inputs, Mapping) and inputs and all(map(is_column, inputs.values())):
        inputs = arrow.table(dict(inputs))
    if to_frame := getattr(inputs, "to_frame", None):  # a column of pandas or Polars
        inputs = to_frame(getattr(inputs, "name", None) or "text")
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
        for problem, *cells in zip(block.problems, *map(block.cells, columns), strict=True):
            yield problem, dict(zip(columns, cells, strict=True))


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
