"""Sources of the rows of a corpus: files, a data set, standard input, or rows in memory."""

import hashlib
import lzma
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, cast, get_args
from urllib.parse import unquote

from ...errors import DataError, reason_of
from ...inputs.media.items import SUFFIXES as MEDIA_SUFFIXES
from ...inputs.texts import collected, is_column
from ...results.storage.tables import optional_module
from .formats import (
    BLOCK,
    Format,
    InputRow,
    Reader,
    RowBlock,
    arrow_module,
    check_columns,
    open_reader,
    row_blocks,
    row_names,
    rows_of_lines,
    sliced,
)
from .media import media_files

SUFFIXES = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".txt": "text",
    ".text": "text",
}
PACKED = (".gz", ".bz2", ".xz", ".zst")

NOT_READ = "a picture or sound, which this model does not read; name a model of pictures or of sounds, as by --model"

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for a missing value in the name of a folder."""

ENDS = 1 << 20
"""Bytes at each end of a file that its fingerprint reads; shards have digests of their rows too."""

_SEVERAL_WORDS = re.compile(
    r"[^\W\d_]\W*\s\W*[^\W\d_]|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
)
"""Two words, or a letter of Thai, Lao, Burmese, Khmer, Japanese or Chinese."""


class InputSource(Protocol):
    """Where rows come from."""

    def names(self) -> list[str]:
        """Return the names of the columns."""
        ...

    def blocks(self, columns: Sequence[str]) -> Iterator[RowBlock]:
        """Read some columns of all rows, in their order, block by block."""
        ...

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return the fingerprint of the input: a name and a value for each part."""
        ...


def open_source(inputs: Any, kind: str | None = None, *, files: bool = False) -> InputSource:
    """Return the source that a corpus is read from.

    Args:
        inputs: A path, URL or pattern, "-" for standard input, "hf:NAME:SPLIT" for a data set of the hub, a folder
            that `save_to_disk` wrote; a list of these; a `datasets.Dataset`; a table of pandas, Polars or Arrow, or a
            column of the former two; or an iterable of mappings such as {"text": "..."}, which is read once.
        kind: The format, where a name does not tell it.
        files: Whether pictures and sounds, and folders of them, are rows: each is its path.
    """
    arrow_module()  # raises DataError if it is missing
    if kind is not None and kind not in get_args(Format):
        raise DataError(f"no format {kind!r}; there are {', '.join(get_args(Format))}")
    if isinstance(inputs, str | Path):
        inputs = [inputs]
    if isinstance(inputs, Sequence) and inputs and all(isinstance(item, str | Path) for item in inputs):
        return _named_source([str(name) for name in inputs], kind, files)
    return _source_in_memory(inputs)


def _source_in_memory(inputs: Any) -> InputSource:
    """Return the source of a data set, a table, a column or rows."""
    inputs = collected(inputs)
    if isinstance(inputs, Mapping) and inputs and all(map(is_column, inputs.values())):
        inputs = arrow_module().table(dict(inputs))
    if hasattr(inputs, "with_format"):
        return DatasetSource([(str(getattr(inputs, "_fingerprint", "a data set")), inputs)])
    if to_frame := getattr(inputs, "to_frame", None):  # a column of pandas or Polars
        inputs = to_frame(getattr(inputs, "name", None) or "text")
    if hasattr(inputs, "__arrow_c_stream__"):
        return _table_source(inputs)
    if not isinstance(inputs, Iterable) or isinstance(inputs, Mapping | bytes):
        raise DataError(
            f"cannot read a corpus from a {type(inputs).__name__}; give a table, or its rows as mappings such as "
            '{"text": "..."}'
        )
    return RowSource(map(_mapping, inputs), {"name": "rows in memory"})


def _named_source(names: Sequence[str], kind: str | None, files: bool) -> InputSource:
    """Return the source of files, data sets or standard input; the arguments are as for `open_source`."""
    if not all(name.strip() for name in names):
        raise DataError("an input has an empty name; name a file, a folder or a data set")
    if list(names) == ["-"]:
        return _standard_input(kind or "text")
    if files and kind is None and (paths := media_files(names)):
        return TableSource(arrow_module().table({"path": paths}), ", ".join(names))
    datasets = [(name, dataset) for name in names if (dataset := _dataset(name)) is not None]
    if not datasets:
        return FileSource([file for name in names for file in _files(name, kind)])
    if len(datasets) < len(names):
        raise DataError("data sets and files cannot be mixed in one corpus")
    return DatasetSource(datasets)


def _table_source(table: Any) -> "TableSource | RowSource":
    """Return the source of a table; a pandas frame with columns of mixed types is read row by row."""
    arrow = arrow_module()
    try:
        return TableSource(arrow.table(table))
    except (arrow.ArrowException, TypeError, ValueError) as error:
        if hasattr(table, "itertuples") and table.columns.is_unique:
            names, values = list(table.columns), table.astype(object).where(table.notna(), None)
            rows = (dict(zip(names, row, strict=True)) for row in values.itertuples(index=False, name=None))
            return RowSource(rows, {"name": "rows in memory"})
        raise DataError(
            f"cannot read this {type(table).__name__} as an Arrow table: {reason_of(error)}; give its rows as "
            'mappings such as {"text": "..."}'
        ) from None


def _mapping(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise DataError(f'a row in memory is a mapping such as {{"text": "..."}}, not {type(row).__name__}')
    return row


def _standard_input(kind: str) -> InputSource:
    """Return the source of standard input: its lines as they come, or a table, which is read whole."""
    name = "standard input"
    if kind not in ("text", "jsonl"):
        from fsspec.implementations.memory import MemoryFileSystem

        system, content = MemoryFileSystem(), sys.stdin.buffer.read()
        system.pipe_file(name, content)
        return FileSource([File(system, name, name, kind, len(content), {})])
    try:
        return RowSource(rows_of_lines(sys.stdin.buffer, kind), {"name": name, "format": kind})
    except ValueError as error:
        raise DataError(f"{name}: not {kind}: {error}") from None


def _dataset(name: str) -> Any:
    """Return the data set with a name, None if the name is that of files."""
    missing = "data sets need datasets: pip install 'normxlogit[eval]'"
    if name.startswith("hf:"):
        datasets = optional_module("datasets", missing)
        name_or_path, _, split = name[3:].partition(":")
        try:
            return datasets.load_dataset(name_or_path, split=split or "train", streaming=True)
        except (OSError, ValueError) as error:
            raise DataError(f"{name}: {error}") from None
    if (Path(name) / "state.json").is_file():
        return optional_module("datasets", missing).load_from_disk(name)
    return None


def columns_of_text(source: InputSource, names: Sequence[str], id_column: str | None) -> list[str]:
    """Return the columns whose cells are mostly texts: several words, or writing that has no spaces between words."""
    if not names:
        return []
    with closing(cast(Any, source.blocks(names))) as blocks:
        block = next(blocks, None)
    found = []
    for name in names if block is not None and len(set(names)) == len(names) else ():
        cells = [cell for cell in block.cells(name) if cell is not None and cell != ""]
        texts = [cell for cell in cells if isinstance(cell, str) and _SEVERAL_WORDS.search(cell)]
        if name != id_column and cells and 2 * len(texts) >= len(cells):
            found.append(name)
    return found


@dataclass(frozen=True)
class File:
    """A file of an input.

    Attributes:
        name: The name for the user.
        partitions: The values in the names of the folders between the input's and the file, such as `year=2024`, which
            all its rows share.
    """

    system: Any
    path: str
    name: str
    kind: str
    size: int
    partitions: Mapping[str, str | None]

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Open the file."""
        from fsspec.core import OpenFile
        from fsspec.utils import infer_compression

        compression = infer_compression(self.path)
        if compression is None and Path(self.path).suffix in PACKED:
            raise DataError(f"{self.path}: cannot be unpacked here; pip install zstandard, or unpack it")
        try:
            with OpenFile(self.system, self.path, "rb", compression=compression).open() as file:
                yield open_reader(file, self.kind, 0 if compression else self.size)
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from None
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise DataError(f"cannot read {self.name}: {reason_of(error)}") from None
        except (ValueError, arrow_module().ArrowException) as error:
            raise DataError(f"{self.name}: not {self.kind}: {reason_of(error)}") from None

    def names(self) -> list[str]:
        """Return the names of the columns that the file holds."""
        with self.reader() as reader:
            return reader.names

    def blocks(self, columns: Sequence[str]) -> Iterator[RowBlock]:
        """Read some columns of the file; rows of JSON may lack one."""
        with self.reader() as reader:
            if self.kind != "jsonl":
                check_columns(reader.names, columns)
            yield from reader.blocks(columns)

    def digest(self) -> str:
        """Return a digest of both ends of the file."""
        digest = hashlib.blake2b(digest_size=16)
        try:
            with self.system.open(self.path, "rb") as file:
                digest.update(file.read(ENDS))
                if self.size > 2 * ENDS:
                    file.seek(self.size - ENDS)
                digest.update(file.read(ENDS))
        except OSError as error:
            raise DataError(f"cannot read {self.name}: {reason_of(error)}") from None
        return digest.hexdigest()


def _files(name: str, kind: str | None) -> list[File]:
    """Return the files of a path, a pattern, a folder or a URL."""
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(name)
        if fsspec.core.has_magic(path) and not system.exists(path):  # "reviews[1].csv" may be a name
            paths = sorted(p for p in system.glob(path) if system.isfile(p))
        elif system.isdir(path):
            paths = sorted(p for p in system.find(path) if _suffix(p) in SUFFIXES and not Path(p).name.startswith("."))
        elif kind is None and _suffix(path) not in SUFFIXES and not system.exists(path):
            raise DataError(f'{name}: no such file; a text in memory is a row such as {{"text": "..."}}')
        else:
            return [File(system, path, name, kind or _kind(path), int(system.size(path) or 0), {})]
        files = [File(system, p, p, kind or _kind(p), int(system.size(p) or 0), _partitions(p, path)) for p in paths]
    except (OSError, ImportError, ValueError) as error:
        raise DataError(f"cannot read {name}: {reason_of(error)}") from None
    if not files:
        raise DataError(f"{name}: {NOT_READ if kind is None and media_files([name]) else 'no such file'}")
    return files


def _suffix(name: str) -> str:
    path = Path(name)
    return (Path(path.stem) if path.suffix in PACKED else path).suffix.lower()


def _kind(path: str) -> str:
    suffix = _suffix(path)
    if suffix in MEDIA_SUFFIXES:
        raise DataError(f"{path}: {NOT_READ}")
    if suffix == ".json":  # lines or an array; of a folder it may be anything else, such as a configuration
        return "jsonl"
    if suffix not in SUFFIXES:
        raise DataError(
            f"{path}: cannot tell the format from the name; give --input-format, one of {', '.join(get_args(Format))}"
        )
    return SUFFIXES[suffix]


def _partitions(path: str, top: str) -> dict[str, str | None]:
    """Return the names and values in the folders between an input's folder, or the fixed part of a pattern, and a file.

    They are written as Hive does, `name=value` with percent signs for what no path holds. pyarrow reads them of Parquet
    and Arrow only, and cannot let a column of the file come before one of its folders.
    """
    folder = top.rstrip("/") + "/"
    if not path.startswith(folder):
        folder = re.split(r"[*?\[]", top)[0].rpartition("/")[0] + "/"
    parts = (part.partition("=") for part in path.removeprefix(folder).split("/")[:-1])
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, _, value in parts if name and value}


@dataclass(frozen=True)
class FileSource:
    """Files, one after the other."""

    files: list[File]

    def names(self) -> list[str]:
        """Return the columns of the first file, and those of its folders' names."""
        return list(dict.fromkeys([*self.files[0].names(), *self.files[0].partitions]))

    def blocks(self, columns: Sequence[str]) -> Iterator[RowBlock]:
        """Read all files; the share is that of their bytes."""
        total, bytes_read = max(sum(file.size for file in self.files), 1), 0
        partition_types = self._partition_types(columns)
        columns_in_files = [name for name in columns if name not in partition_types]
        for file in self.files:
            partitions = {name: file.partitions.get(name) for name in partition_types}
            for block in file.blocks(columns_in_files):
                partition_columns = {
                    name: arrow_module().array([partitions[name]] * len(block.problems), "string").cast(kind)
                    for name, kind in partition_types.items()
                }
                yield RowBlock(
                    {**block.columns, **partition_columns},
                    block.problems,
                    (bytes_read + block.fraction * file.size) / total,
                )
            bytes_read += file.size

    def _partition_types(self, columns: Sequence[str]) -> dict[str, str]:
        """Return the Arrow types of the columns that only the names of folders hold."""
        names = {name for name in columns if any(name in file.partitions for file in self.files)}
        types = {}
        for name in names.difference(self.files[0].names() if names else ()):
            values = [value for file in self.files if (value := file.partitions.get(name)) is not None]
            types[name] = "int64" if all(re.fullmatch("0|-?[1-9][0-9]{0,17}", v) for v in values) else "string"
        return types

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return name, length and a digest of both ends of each file."""
        return [{"name": file.name, "bytes": file.size, "digest": file.digest()} for file in self.files]


@dataclass(frozen=True)
class DatasetSource:
    """Data sets of the package `datasets`, with their names."""

    parts: list[tuple[str, Any]]

    def names(self) -> list[str]:
        """Return the columns of the first data set."""
        name, part = self.parts[0]
        names = getattr(part, "column_names", part)  # a dictionary of data sets may have no such attribute
        if isinstance(names, Mapping):
            raise DataError(f"{name} has splits ({', '.join(names)}); name one")
        return list(names or [])

    def blocks(self, columns: Sequence[str]) -> Iterator[RowBlock]:
        """Read the data sets one after the other."""
        arrow = arrow_module()
        for number, (_, part) in enumerate(self.parts):
            total = len(part) if hasattr(part, "__len__") else 0
            rows_read = 0
            for table in part.select_columns(list(columns)).with_format("arrow").iter(batch_size=BLOCK):
                table = table if isinstance(table, arrow.Table) else arrow.table(table)
                rows_read += len(table)
                yield RowBlock.of(table, (number + (rows_read / total if total else 0)) / len(self.parts))

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return the names of the data sets and their fingerprints in `datasets`."""
        return [
            {"name": name, "digest": str(getattr(part, "_fingerprint", None) or getattr(part, "info", ""))[:200]}
            for name, part in self.parts
        ]


class TableSource:
    """A table of Arrow in memory."""

    def __init__(self, table: Any, name: str = "rows in memory") -> None:
        self._name, self._table = name, table

    def names(self) -> list[str]:
        """Return the names of its columns."""
        return list(self._table.column_names)

    def blocks(self, columns: Sequence[str]) -> Iterator[RowBlock]:
        """Read some of its columns, block by block."""
        for number, table in enumerate(sliced(self._table.select(list(columns))), 1):
            yield RowBlock.of(table, min(number * BLOCK / len(self._table), 1.0))

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return its name alone; its rows are compared with the digests of the shards as they are read."""
        return [{"name": self._name}]


class RowSource:
    """Rows that can be read only once: mappings from any iterable, or the lines of a stream.

    Args:
        rows: The rows.
        metadata: Facts that are known before the rows are read; the rows are compared as they are read.
    """

    def __init__(self, rows: Iterable[InputRow], metadata: dict[str, Any]) -> None:
        self._rows, self._metadata = iter(rows), metadata
        self._first = list(islice(self._rows, BLOCK))

    def names(self) -> list[str]:
        """Return the names in the first rows."""
        return row_names(self._first)

    def blocks(self, columns: Sequence[str]) -> Iterator[RowBlock]:
        """Read all rows."""
        return row_blocks(chain(self._first, self._rows), columns, lambda: 0.0)

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return the metadata, as the fingerprint of rows that are not read yet."""
        return [self._metadata]
