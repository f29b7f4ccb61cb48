"""What a corpus is read from: files anywhere, a data set, standard input, or rows in memory."""

import hashlib
import lzma
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from ..errors import DataError
from ..results.tables import optional_module
from .formats import BLOCK, FORMATS, PROBLEM, Block, arrow_module, column_names, read_blocks, table_of, without_views

__all__ = ["Source", "open_source"]

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
BROKEN = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading a file raises where it, or what it is packed in, is broken."""

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What Hive names a folder by whose rows have no value."""

ENDS = 1 << 20
"""Bytes at the beginning and the end of a file that its fingerprint reads; the rows themselves have digests too."""


class Source(Protocol):
    """Where rows come from."""

    def names(self) -> list[str]:
        """Return the names of the columns; none where they show only when it is read."""

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Read some columns of all rows, in their order, block by block."""

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return what tells this input from another: something with a name for each part."""


def open_source(inputs: Any, kind: str | None = None) -> Source:
    """Find out what a corpus is to be read from.

    Args:
        inputs: A path, URL or pattern, "-" for standard input, "hf:NAME:SPLIT" for a data set of the hub, a folder
            that `save_to_disk` wrote; a list of these; a `datasets.Dataset`; a table of pandas, Polars or Arrow; or an
            iterable of mappings such as {"text": "..."}, which is read once.
        kind: The format, where a name does not tell it.

    Raises:
        DataError: If there is no such file, or its format is not known.
    """
    if kind is not None and kind not in FORMATS:
        raise DataError(f"no format {kind!r}; there are {', '.join(FORMATS)}")
    if isinstance(inputs, str | Path):
        inputs = [inputs]
    if hasattr(inputs, "with_format"):
        return DatasetSource([(str(getattr(inputs, "_fingerprint", "a data set")), inputs)])
    if hasattr(inputs, "__arrow_c_stream__"):
        return TableSource(inputs)
    if not isinstance(inputs, Sequence) or not inputs or not _are_paths(inputs):
        return RowSource(inputs)
    names = [str(name) for name in inputs]
    if not all(name.strip() for name in names):
        raise DataError("an input has an empty name; name a file, a folder or a data set")
    if names == ["-"]:
        return StreamSource(sys.stdin.buffer, kind or "text")
    datasets = [_dataset(name) for name in names]
    if any(found is not None for found in datasets):
        if not all(found is not None for found in datasets):
            raise DataError("data sets and files cannot be mixed in one corpus")
        return DatasetSource([(name, found) for name, found in zip(names, datasets, strict=True)])
    return FileSource([file for name in names for file in _files(name, kind)])


def _are_paths(inputs: Sequence[Any]) -> bool:
    return all(isinstance(item, str | Path) for item in inputs)


def _suffix(name: str) -> str:
    path = Path(name)
    return (Path(path.stem) if path.suffix in PACKED else path).suffix.lower()


def _dataset(name: str) -> Any:
    """Return the data set that a name means, None if it means files."""
    if name.startswith("hf:"):
        datasets = optional_module("datasets", "data sets need datasets: pip install 'normxlogit[paper]'")
        place, _, split = name[3:].partition(":")
        try:
            return datasets.load_dataset(place, split=split or "train", streaming=True)
        except (OSError, ValueError) as error:
            raise DataError(f"{name}: {error}") from None
    if (Path(name) / "state.json").is_file():
        datasets = optional_module("datasets", "data sets need datasets: pip install 'normxlogit[paper]'")
        return datasets.load_from_disk(name)
    return None


@dataclass(frozen=True)
class File:
    """A file of an input.

    Attributes:
        system: Its fsspec file system.
        path: Its path there.
        name: What the user knows it by.
        kind: Its format.
        size: Its length in bytes.
        partitions: What the folders between the input's own and the file say of all its rows, as `year=2024` does.
    """

    system: Any
    path: str
    name: str
    kind: str
    size: int
    partitions: Mapping[str, str | None]

    def open(self) -> Any:
        """Open it for reading bytes, unpacked."""
        import fsspec

        found = fsspec.core.OpenFile(self.system, self.path, "rb", compression=_packing(self.path))
        return found.open()


def _packing(path: str) -> str | None:
    from fsspec.utils import infer_compression

    found: str | None = infer_compression(path)
    if found is None and Path(path).suffix in PACKED:
        raise DataError(f"{path}: cannot be unpacked here; pip install zstandard, or unpack it")
    return found


def _files(name: str, kind: str | None) -> list[File]:
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
            paths = [path]
        found = [
            File(
                system,
                p,
                name if p == path else p,
                kind or _kind(p),
                int(system.size(p) or 0),
                {} if p == path else _partitions(p, path),
            )
            for p in paths
        ]
    except (OSError, ImportError, ValueError) as error:
        raise DataError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
    if not found:
        raise DataError(f"{name}: no such file")
    return found


def _partitions(path: str, top: str) -> dict[str, str | None]:
    """Return the names and values in the folders between an input's folder, or the fixed part of a pattern, and a file.

    They are written as Hive does, `name=value` with percent signs for what no path holds.
    """
    fixed = re.split(r"[*?\[]", top)[0] if not path.startswith(top.rstrip("/") + "/") else top.rstrip("/") + "/"
    between = path.removeprefix(fixed if fixed.endswith("/") else fixed.rpartition("/")[0] + "/").split("/")[:-1]
    pairs = (folder.partition("=") for folder in between if "=" in folder.strip("="))
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, _, value in pairs if name}


def _kind(path: str) -> str:
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise DataError(
            f"{path}: cannot tell the format from the name; give --input-format, one of {', '.join(FORMATS)}"
        )
    return SUFFIXES[suffix]


@dataclass(frozen=True)
class FileSource:
    """Files, one after the other."""

    files: list[File]

    def names(self) -> list[str]:
        """Return the columns of the first file, and those that its folders say."""
        inside = self._inside()
        return [*inside, *(name for name in self.files[0].partitions if name not in inside)]

    def _inside(self) -> list[str]:
        """Return the columns that the first file itself holds."""
        file = self.files[0]
        try:
            with file.open() as opened:
                return column_names(opened, file.kind)
        except BROKEN as error:
            raise DataError(f"cannot read {file.name}: {getattr(error, 'strerror', None) or error}") from None
        except ValueError as error:
            raise DataError(f"{file.name}: not {file.kind}: {error}") from None

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Read all files; the share is that of their bytes."""
        total, done = max(sum(file.size for file in self.files), 1), 0
        partitions = self._partitions(columns)
        inside = [name for name in columns if name not in partitions]
        for file in self.files:
            try:
                with file.open() as opened:
                    size = 0 if _packing(file.path) else file.size
                    for block in read_blocks(opened, file.kind, size, inside):
                        table = block.table
                        for name, kind in partitions.items():
                            said = file.partitions.get(name)
                            value = int(said) if said is not None and kind == "int64" else said
                            table = table.append_column(name, arrow_module().array([value] * len(table), kind))
                        yield Block(table, (done + block.fraction * file.size) / total)
            except DataError as error:
                raise DataError(f"{file.name}: {error}") from None
            except BROKEN as error:
                raise DataError(f"cannot read {file.name}: {getattr(error, 'strerror', None) or error}") from None
            done += file.size

    def _partitions(self, columns: Sequence[str]) -> dict[str, str]:
        """Return the Arrow types of the columns that folders say; what the files themselves hold comes first."""
        names = [name for name in columns if any(name in file.partitions for file in self.files)]
        if not names:
            return {}
        inside, found = self._inside(), {}
        for name in names:
            values = [value for file in self.files if (value := file.partitions.get(name)) is not None]
            if name not in inside:
                found[name] = "int64" if all(re.fullmatch("0|-?[1-9][0-9]{0,17}", v) for v in values) else "string"
        return found

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return name, length and a digest of both ends of each file."""
        return [{"name": file.name, "bytes": file.size, "digest": _ends(file)} for file in self.files]


def _ends(file: File) -> str:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with file.system.open(file.path, "rb") as opened:
            digest.update(opened.read(ENDS))
            if file.size > 2 * ENDS:
                opened.seek(file.size - ENDS)
            digest.update(opened.read(ENDS))
    except OSError as error:
        raise DataError(f"cannot read {file.name}: {error.strerror or error}") from None
    return digest.hexdigest()


@dataclass(frozen=True)
class StreamSource:
    """A stream of lines that can be read once."""

    stream: Any
    kind: str

    def names(self) -> list[str]:
        """Return the names, which a stream of JSON lines has none of before it is read."""
        if self.kind not in ("text", "jsonl"):
            raise DataError("standard input is read as text or jsonl; save other formats to a file")
        return ["text"] if self.kind == "text" else []

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Read to the end."""
        yield from read_blocks(self.stream, self.kind, 0, columns)

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return that it is a stream: its rows are compared as they come."""
        return [{"name": "standard input", "format": self.kind}]


@dataclass(frozen=True)
class DatasetSource:
    """Data sets of the package `datasets`, with their names."""

    parts: list[tuple[str, Any]]

    def names(self) -> list[str]:
        """Return the columns of the first."""
        if hasattr(self.parts[0][1], "keys") and not hasattr(self.parts[0][1], "column_names"):
            raise DataError(f"{self.parts[0][0]} has splits ({', '.join(self.parts[0][1])}); name one")
        names = self.parts[0][1].column_names
        if isinstance(names, Mapping):
            raise DataError(f"{self.parts[0][0]} has splits ({', '.join(names)}); name one")
        return list(names or [])

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Read them one after the other."""
        arrow = arrow_module()
        for number, (_, part) in enumerate(self.parts):
            wanted = part.select_columns(list(columns)).with_format("arrow")
            try:
                total = len(part)
            except TypeError:
                total = 0
            done = 0
            for table in wanted.iter(batch_size=BLOCK):
                table = table if isinstance(table, arrow.Table) else arrow.table(table)
                done += len(table)
                yield Block(table.combine_chunks(), (number + (done / total if total else 0)) / len(self.parts))

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return their names and the fingerprints that `datasets` keeps."""
        return [
            {"name": name, "digest": str(getattr(part, "_fingerprint", None) or getattr(part, "info", ""))[:200]}
            for name, part in self.parts
        ]


class TableSource:
    """A table in memory, of any library that hands it on as Arrow."""

    def __init__(self, table: Any) -> None:
        arrow = arrow_module()
        try:
            self._table = arrow.table(table)
        except (arrow.ArrowException, TypeError, ValueError) as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(
                f"cannot read this {type(table).__name__} as an Arrow table: {said}; give its rows as mappings such as "
                '{"text": "..."}'
            ) from None

    def names(self) -> list[str]:
        """Return the names of its columns."""
        return list(self._table.column_names)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Read some of its columns, block by block."""
        wanted = self._table.select(list(columns))
        for start in range(0, len(wanted), BLOCK):
            yield Block(without_views(wanted.slice(start, BLOCK)), min((start + BLOCK) / len(wanted), 1.0))

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return that it is in memory: its rows are compared as they come."""
        return [{"name": "rows in memory"}]


class RowSource:
    """Mappings in memory, or of a generator."""

    def __init__(self, rows: Any) -> None:
        if not isinstance(rows, Iterable) or isinstance(rows, Mapping | bytes):
            raise DataError(f"cannot read a corpus from a {type(rows).__name__}")
        self._rows = iter(rows)
        self._first = list(islice(self._rows, BLOCK))

    def names(self) -> list[str]:
        """Return the keys of the first mappings."""
        return list(dict.fromkeys(name for row in self._first for name in _mapping(row)))

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Read them all."""
        while rows := self._first or list(islice(self._rows, BLOCK)):
            self._first = []
            table: dict[str, list[Any]] = {name: [_mapping(row).get(name) for row in rows] for name in columns}
            yield Block(table_of(table | {PROBLEM: [None] * len(rows)}), 0.0)

    def fingerprint(self) -> list[dict[str, Any]]:
        """Return that it is in memory: its rows are compared as they come."""
        return [{"name": "rows in memory"}]


def _mapping(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise DataError(f'a row in memory is a mapping such as {{"text": "..."}}, not {type(row).__name__}')
    return row
