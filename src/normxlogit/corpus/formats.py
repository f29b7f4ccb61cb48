"""Files of texts as streams of Arrow tables, whatever their format."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..errors import DataError
from ..results.tables import optional_module

__all__ = [
    "BLOCK",
    "FORMATS",
    "ODD",
    "PROBLEM",
    "Block",
    "arrow_module",
    "check_columns",
    "column_names",
    "read_blocks",
    "table_of",
    "without_views",
]

PROBLEM = "\0problem"
"""The column of a block that says why a row cannot be read."""

ODD = "\0!"
"""What a value begins with that is no text, in a column of texts."""

BLOCK = 4096
"""Rows read at a time."""

CSV_BYTES = 8 << 20
"""Bytes of CSV read at a time; no row may be longer."""

LAST = "\x1elast"
"""What stands in the line after a CSV file's own."""

UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""What text begins with that has two bytes for a character."""

SHOWN = 40
"""Characters of a cell that an error shows."""

FORMATS = ("parquet", "jsonl", "csv", "tsv", "arrow", "text")


@dataclass(frozen=True)
class Block:
    """Some rows of a file.

    Attributes:
        table: The wanted columns; a column PROBLEM where rows of this format may be broken.
        fraction: Share of the file read so far.
    """

    table: Any
    fraction: float


def arrow_module() -> Any:
    """Import pyarrow.

    Raises:
        DataError: If it is missing.
    """
    missing = "corpora need pyarrow: pip install 'normxlogit[scale]'"
    optional_module("pyarrow.compute", missing)
    return optional_module("pyarrow", missing)


def column_names(file: Any, kind: str) -> list[str]:
    """Return the names of a file's columns; of JSON lines those of the rows of the first block."""
    arrow = arrow_module()
    if kind == "text":
        return ["text"]
    if kind == "parquet":
        return list(optional_module("pyarrow.parquet", "").ParquetFile(file).schema_arrow.names)
    if kind == "arrow":
        return list(_ipc(arrow, file).schema.names)
    if kind == "jsonl":
        lines = list(islice(file, BLOCK))
        _check_utf8(lines)
        rows = (row for row in map(_parsed, lines) if isinstance(row, dict))
        return list(dict.fromkeys(name for row in rows for name in row))
    _check_utf8([file.read(len(UTF16[0]))])
    file.seek(0)
    reader = optional_module("pyarrow.csv", "").open_csv(file, **_csv_options(kind, None, lambda row: "skip"))
    return list(reader.schema.names)


def read_blocks(file: Any, kind: str, size: int, columns: Sequence[str]) -> Iterator[Block]:
    """Read some columns of a file, block by block.

    Args:
        file: An open binary file.
        kind: One of FORMATS.
        size: Its length in bytes, 0 if that is not known.
        columns: The wanted columns.

    Raises:
        DataError: If the file is not of this format or lacks a column.
        OSError: If it cannot be read.
    """
    arrow = arrow_module()
    try:
        if kind == "parquet":
            yield from _parquet(file, columns)
        elif kind == "arrow":
            yield from _arrow(arrow, file, size, columns)
        elif kind in ("csv", "tsv"):
            yield from _csv(arrow, file, kind, size, columns)
        else:
            yield from _lines(file, kind, size, columns)
    except arrow.ArrowKeyError as error:
        raise DataError(f"no such column: {error}") from None
    except (ValueError, arrow.ArrowException) as error:  # ArrowInvalid is a ValueError
        raise DataError(f"not {kind}: {str(error).splitlines()[0]}") from None


def _parquet(file: Any, columns: Sequence[str]) -> Iterator[Block]:
    read = optional_module("pyarrow.parquet", "").ParquetFile(file, page_checksum_verification=True)
    arrow = arrow_module()
    check_columns(read.schema_arrow.names, columns)
    total, done = read.metadata.num_rows, 0
    for batch in read.iter_batches(batch_size=BLOCK, columns=list(columns)):
        done += batch.num_rows
        yield Block(arrow.Table.from_batches([batch]).select(list(columns)), done / max(total, 1))


def _ipc(arrow: Any, file: Any) -> Any:
    start = file.read(6)
    file.seek(0)
    return arrow.ipc.open_file(file) if start == b"ARROW1" else arrow.ipc.open_stream(file)


def _arrow(arrow: Any, file: Any, size: int, columns: Sequence[str]) -> Iterator[Block]:
    reader = _ipc(arrow, file)
    check_columns(reader.schema.names, columns)
    whole = hasattr(reader, "num_record_batches")
    batches = map(reader.get_batch, range(reader.num_record_batches)) if whole else reader
    for number, batch in enumerate(batches, 1):
        table = without_views(arrow.Table.from_batches([batch]).select(list(columns)))
        fraction = number / reader.num_record_batches if whole else file.tell() / max(size, 1)
        for start in range(0, len(table), BLOCK):
            yield Block(table.slice(start, BLOCK), min(fraction, 1.0))


def without_views(table: Any) -> Any:
    """Return a table without views of strings, which Polars writes and of which Arrow can take no rows."""
    arrow = arrow_module()
    columns = {name: _without_views(arrow, table[name]) for name in table.column_names}
    return arrow.table(columns)


def _without_views(arrow: Any, column: Any) -> Any:
    kind = _plain_type(arrow, column.type)
    if kind == column.type:
        return column
    if not arrow.types.is_dictionary(kind):
        return column.cast(kind)
    chunks = [
        arrow.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind.value_type))
        for chunk in column.chunks
    ]
    return arrow.chunked_array(chunks, kind)


def _plain_type(arrow: Any, kind: Any) -> Any:
    """Return a type without views in it."""
    types = arrow.types
    if types.is_string_view(kind):
        return arrow.large_string()
    if types.is_binary_view(kind):
        return arrow.large_binary()
    if types.is_dictionary(kind):
        return arrow.dictionary(kind.index_type, _plain_type(arrow, kind.value_type))
    if types.is_struct(kind):
        return arrow.struct([arrow.field(part.name, _plain_type(arrow, part.type)) for part in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        return (arrow.list_ if types.is_list(kind) else arrow.large_list)(_plain_type(arrow, kind.value_type))
    return kind


def _csv_options(kind: str, columns: Sequence[str] | None, wrong: Callable[[Any], str]) -> dict[str, Any]:
    arrow, csv = arrow_module(), optional_module("pyarrow.csv", "")
    return {
        "read_options": csv.ReadOptions(use_threads=False, block_size=CSV_BYTES),
        "parse_options": csv.ParseOptions(
            delimiter="\t" if kind == "tsv" else ",",
            newlines_in_values=True,
            ignore_empty_lines=False,
            invalid_row_handler=wrong,
        ),
        # Bytes: text that is not UTF-8 is one row's problem, not the file's.
        "convert_options": csv.ConvertOptions(
            column_types=dict.fromkeys(columns or (), arrow.binary()),
            include_columns=list(columns or ()),
            strings_can_be_null=False,
            check_utf8=False,
        ),
    }


def _csv(arrow: Any, file: Any, kind: str, size: int, columns: Sequence[str]) -> Iterator[Block]:
    broken: dict[int, str] = {}  # by row, counted from 0
    delimiter = "\t" if kind == "tsv" else ","
    every = column_names(file, kind)
    last = delimiter.join([LAST] * (len(every) + 1))  # one column too many
    file.seek(0)
    ended = False

    def wrong(row: Any) -> str:
        nonlocal ended
        if row.text == last:
            ended = True
            return "skip"
        broken[row.number - 2] = f"the row has {row.actual_columns} columns instead of {row.expected_columns}"
        return "skip"

    whole = _Ended(file, f"{last}\n".encode())
    looked_at = every if kind == "tsv" else columns
    reader = optional_module("pyarrow.csv", "").open_csv(whole, **_csv_options(kind, looked_at, wrong))
    row = 0
    for batch in reader:
        rows = {name: batch.column(name).to_pylist() for name in looked_at}
        if kind == "tsv":
            _check_cells(rows)
        good = batch.num_rows
        table: dict[str, list[Any]] = {name: [] for name in (*columns, PROBLEM)}
        taken = 0
        while taken < good or row in broken:
            problem = broken.pop(row, None)
            for name in columns:
                table[name].append(None if problem else rows[name][taken])
            table[PROBLEM].append(problem)
            taken += problem is None
            row += 1
        yield from _blocks(table, min(file.tell() / max(size, 1), 1.0))
    if broken:
        left: dict[str, list[Any]] = {name: [None] * len(broken) for name in columns}
        yield from _blocks(left | {PROBLEM: [broken[i] for i in sorted(broken)]}, 1.0)
    if not ended:
        raise DataError("a quote is not closed: the rows after it were read as one, or not at all")


def _check_cells(rows: Mapping[str, list[bytes]]) -> None:
    """Refuse a table between tabs in which a cell holds a tab and the end of a line.

    Such tables are mostly written without quoting, and then quotes in two rows make one cell of all between them.

    Raises:
        DataError: If there is such a cell.
    """
    for name, cells in rows.items():
        for cell in cells:
            if b"\t" in cell and b"\n" in cell:
                start = cell.decode("utf-8", "replace").split("\n")[0][:SHOWN]
                raise DataError(
                    f"a cell of the column {name!r} reaches over several rows, from {start!r} on, as quotes in texts "
                    "do where a file is written without quoting; write it as JSONL, or with the quotes doubled"
                )


class _Ended:
    """A CSV file with a line after its own, which is not found where a quote is left open."""

    closed = False

    def __init__(self, file: Any, line: bytes) -> None:
        self._file, self._line, self._before = file, line, b"\n"

    def read(self, size: int = -1) -> bytes:
        content: bytes = self._file.read(size)
        if content:
            self._before = content[-1:]
            return content
        if self._before != b"\n":
            self._before, self._line = b"\n", b"\n" + self._line
        part, self._line = (self._line, b"") if size < 0 else (self._line[:size], self._line[size:])
        return part

    def readable(self) -> bool:
        return True


def _blocks(columns: Mapping[str, list[Any]], fraction: float) -> Iterator[Block]:
    count = len(columns[PROBLEM])
    for start in range(0, count, BLOCK):
        yield Block(table_of({k: v[start : start + BLOCK] for k, v in columns.items()}), fraction)


def _lines(file: Any, kind: str, size: int, columns: Sequence[str]) -> Iterator[Block]:
    done, first = 0, True
    while lines := list(islice(file, BLOCK)):
        done += sum(map(len, lines))
        if first:
            _check_utf8(lines)
            lines[0], first = lines[0].removeprefix(b"\xef\xbb\xbf"), False
        if kind == "text":
            table: dict[str, list[Any]] = {"text": [line.rstrip(b"\r\n") for line in lines]}
            table[PROBLEM] = [None] * len(lines)
        else:
            rows = [_parsed(line) for line in lines if line.strip()]
            table = {name: [row.get(name) if isinstance(row, dict) else None for row in rows] for name in columns}
            table[PROBLEM] = [row if isinstance(row, str) else None for row in rows]
        if table[PROBLEM]:
            yield Block(table_of(table), min(done / size, 1.0) if size else 0.0)


def _check_utf8(lines: list[bytes]) -> None:
    """Refuse text in two bytes a character, which would be read as texts of signs between zeros.

    Raises:
        ValueError: If it begins as such text does.
    """
    if lines and (lines[0].startswith(UTF16) or b"\0" in lines[0]):
        raise ValueError("UTF-16, or no text at all; save it as UTF-8")


def _parsed(line: bytes) -> dict[str, Any] | str:
    """Return the object on a line, or what is wrong with it."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return row if isinstance(row, dict) else "not a JSON object"


def table_of(columns: Mapping[str, list[Any]]) -> Any:
    """Return Python values as an Arrow table; what has no type in common becomes text, marked by `ODD`."""
    arrow = arrow_module()
    return arrow.table({name: _column(arrow, values) for name, values in columns.items()})


def _column(arrow: Any, values: list[Any]) -> Any:
    try:
        if any(isinstance(value, bytes) for value in values):
            return arrow.array(values, arrow.binary()).cast(arrow.string())
        return arrow.array(values)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, UnicodeError, OverflowError):
        return arrow.array([None if value is None else _marked(value) for value in values], arrow.string())


def _marked(value: Any) -> str:
    """Return a text as it is, and anything else marked."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"{ODD}not UTF-8 at byte {error.start}"
    if not isinstance(value, str):
        return ODD + json.dumps(value, default=str)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return f"{ODD}half a character (a lone surrogate)"
    return value


def check_columns(names: Iterable[str], wanted: Sequence[str]) -> None:
    """Refuse names that no column has, or several.

    Raises:
        DataError: If there is one.
    """
    known = list(names)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise DataError(f"no column {missing[0]!r}; there are {', '.join(map(repr, known))}")
    for name in wanted:
        if known.count(name) > 1:
            raise DataError(f"{known.count(name)} columns are called {name!r}; rename all but one")
