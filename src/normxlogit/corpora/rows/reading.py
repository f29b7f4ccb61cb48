"""Sources of the rows of a corpus: files, a data set, standard input, or rows in memory."""

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import iglob
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, get_args

from ...errors import DataError, reason_of
from ...inputs.texts import collected, visible_files
from ...long_runs.lines import rows_of_lines
from ...long_runs.table_files import SUFFIXES, Format, source_of_file
from ...long_runs.tables import (
    BLOCK,
    ClassNames,
    RowBlock,
    RowSource,
    arrow_module,
    class_names_of_dataset,
    source_in_memory,
    source_of_rows,
    source_of_table,
)
from .partitions import partition_values, with_partition

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""The ends of the names of compressed files."""


def open_source(inputs: Any, kind: str | None = None, *, reads_media: bool = False) -> RowSource:
    """Return the source that a corpus is read from.

    Args:
        inputs: Files, a data set, a table or rows; see `attribute`.
        kind: The format of files whose names do not tell it.
        reads_media: Whether files of pictures and sounds, and folders of them, are rows.

    Raises:
        DataError: If it cannot be read.
    """
    arrow_module()  # raises DataError if it is missing
    if kind is not None and kind not in get_args(Format):
        raise DataError(f"no format {kind!r}; there are {', '.join(get_args(Format))}")
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    # An empty list is one of no rows, and not of no files.
    if isinstance(inputs, Sequence) and inputs and all(isinstance(item, str | Path) for item in inputs):
        return _source_of_names([str(name) for name in inputs], kind, reads_media=reads_media)
    inputs = collected(inputs)
    if hasattr(inputs, "with_format"):  # of `datasets`
        return _of_dataset(inputs)
    return source_in_memory(inputs)


def _source_of_names(names: list[str], kind: str | None, *, reads_media: bool) -> RowSource:
    """Return the source of files, folders, patterns or URLs; the name "-" alone is standard input.

    Args:
        names: What the caller names.
        kind: The format of tables; None for what their names tell.
        reads_media: Whether pictures and sounds are rows, unless a format says that the files are tables.

    Raises:
        DataError: If one of them cannot be read.
    """
    if not all(name.strip() for name in names):
        raise DataError("an input has an empty name; name a file, a folder or a data set")
    if names == ["-"]:
        return _standard_input(kind or "text")
    if reads_media and kind is None:
        media_paths = _media_files(names)
        if media_paths:  # otherwise the names are of tables with pictures or sounds, or their paths
            return replace(source_of_table(arrow_module().table({"path": media_paths})), parts=names)
    tables: list[_InputFile] = []
    for name in names:
        tables += _files(name, kind)
    return _of_files(tables)


def _standard_input(kind: str) -> RowSource:
    """Return the source of standard input: its lines as they come, or a table, which is read whole."""
    name = "standard input"
    if kind not in ("text", "jsonl"):
        content = sys.stdin.buffer.read()
        return source_of_file(lambda: io.BytesIO(content), name, kind, len(content))
    try:
        return replace(source_of_rows(rows_of_lines(sys.stdin.buffer, kind)), parts=[name])
    except ValueError as error:  # of the first rows, which `source_of_rows` reads at once
        raise DataError(f"{name}: not {kind}: {error}") from None


def _of_dataset(dataset: Any) -> RowSource:
    """Return the source of a data set of `datasets`."""
    # Of a dictionary of data sets this is a mapping, by splits; one of streams has no such attribute.
    names = getattr(dataset, "column_names", dataset)
    if isinstance(names, Mapping):
        raise DataError(f"a data set has splits ({', '.join(names)}); name one")

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        arrow = arrow_module()
        rows_read = 0
        total = len(dataset) if hasattr(dataset, "__len__") else 0  # a stream does not know it
        for table in dataset.select_columns(list(columns)).with_format("arrow").iter(batch_size=BLOCK):
            table = table if isinstance(table, arrow.Table) else arrow.table(table)
            rows_read += len(table)
            yield RowBlock.of(table, rows_read / total if total else 0.0)

    # A stream may not know its columns: then `names` is None.
    return RowSource(lambda: list(names or []), blocks, ["a data set"], lambda: class_names_of_dataset(dataset))


class _InputFile(NamedTuple):
    """A file of rows."""

    source: RowSource
    path: str  # where it is, in its file system
    size: int  # in bytes


def _files(name: str, kind: str | None) -> list[_InputFile]:
    """Return the files of a path, a pattern, a folder or a URL."""
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(name)
        if fsspec.core.has_magic(path) and not system.exists(path):  # "reviews[1].csv" may be a name
            paths = list(filter(system.isfile, system.glob(path)))
        elif system.isdir(path):
            paths = _tables_in(system, path)
        else:
            return [_single_file(system, path, name, kind)]
        files = [_file(system, file_path, file_path, kind) for file_path in sorted(paths)]
    except (OSError, ImportError, ValueError) as error:
        raise DataError(f"cannot read {name}: {reason_of(error)}") from None
    if not files:
        raise DataError(f"{name}: no such file, or no table in this folder; its name ends in {', '.join(SUFFIXES)}")
    return files


def _single_file(system: Any, path: str, name: str, kind: str | None) -> _InputFile:
    """Return the file that an input names."""
    if kind is None and _suffix(path) not in SUFFIXES and not system.exists(path):  # maybe a text, and no name
        raise DataError(f'{name}: no such file; a text in memory is a row such as {{"text": "..."}}')
    return _file(system, path, name, kind)


def _tables_in(system: Any, folder: str) -> list[str]:
    """Return the paths of the tables in a folder, without hidden files."""
    return [path for path in system.find(folder) if _suffix(path) in SUFFIXES and not Path(path).name.startswith(".")]


def _file(system: Any, path: str, name: str, kind: str | None) -> _InputFile:
    """Return a file.

    Args:
        system: The fsspec file system that it is in.
        path: Its path there.
        name: What the user calls it, for errors.
        kind: Its format; None for the one that its name tells.
    """
    from fsspec.core import OpenFile
    from fsspec.utils import infer_compression

    kinds = {**SUFFIXES, ".json": "jsonl"}  # lines or an array; in a folder it may be anything, such as a configuration
    kind = kind or kinds.get(_suffix(path))
    if kind is None:
        raise DataError(
            f"{path}: cannot tell the format from the name: pictures and sounds need a --model that reads them alone, "
            f"and tables --input-format, one of {', '.join(get_args(Format))}"
        )
    compression = infer_compression(path)
    size = int(system.size(path) or 0)  # None of a URL whose server does not say it
    if compression is None and Path(path).suffix in COMPRESSED:
        raise DataError(f"{path}: cannot be unpacked here; pip install zstandard, or unpack it")
    file = OpenFile(system, path, "rb", compression=compression)  # it is decompressed while it is read
    decompressed_size = 0 if compression else size  # 0 where it is not known
    return _InputFile(source_of_file(file.open, name, kind, decompressed_size), path, size)


def _suffix(name: str) -> str:
    """Return the ending of a file's name that tells its format, without that of its compression."""
    path = Path(name)
    uncompressed = Path(path.stem) if path.suffix in COMPRESSED else path
    return uncompressed.suffix.lower()


def _of_files(files: Sequence[_InputFile]) -> RowSource:
    """Return the source of the rows of files, one after the other; it has the columns of the first file."""
    in_paths = partition_values([file.path for file in files])
    sources = [with_partition(file.source, values) for file, values in zip(files, in_paths, strict=True)]
    sizes = [file.size for file in files]
    first = sources[0]

    def blocks(columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows, with the share of all bytes that is read."""
        total = max(sum(sizes), 1)  # also of empty files, or where no size is known
        bytes_read = 0  # of the files that are read to their end
        class_names = first.class_names()
        for source, size in zip(sources, sizes, strict=True):
            _check_class_names(source, columns, class_names)
            for block in source.blocks(columns):
                yield replace(block, fraction=(bytes_read + block.fraction * size) / total)
            bytes_read += size

    return RowSource(first.names, blocks, [part for source in sources for part in source.parts], first.class_names)


def _check_class_names(source: RowSource, columns: Sequence[str], expected: ClassNames) -> None:
    """Refuse a file whose whole numbers stand for other classes than those of the first file.

    Args:
        source: The rows of the file.
        columns: The columns that are read.
        expected: The names of classes in the first file.
    """
    class_names = source.class_names()
    for column in columns:
        names = class_names.get(column, ())
        first_names = expected.get(column, ())
        if names != first_names:
            shown = ", ".join(names) or "no names"
            first_shown = ", ".join(first_names) or "no names"
            raise DataError(
                f"{source.parts[0]}: the classes of column {column!r} are {shown}, and {first_shown} in the first file"
            )


def _media_files(names: Sequence[str]) -> list[str]:
    """Return the paths of pictures and sounds for files, folders and patterns, in their order; none for tables.

    Raises:
        DataError: If some of the names are of pictures or sounds, and others are not.
    """
    paths_of_names = [_media_in(name) for name in names]
    if any(paths_of_names) and not all(paths_of_names):
        name = names[paths_of_names.index([])]
        raise DataError(f"{name} is neither a picture or sound nor a folder of them, as the other inputs are")
    # Arrow's strings are Unicode, and a path on Linux may hold bytes that are not.
    return [path.encode("utf-8", "replace").decode() for path in chain.from_iterable(paths_of_names)]


def _media_in(name: str) -> list[str]:
    """Return the paths of the pictures and sounds that a path, a folder or a pattern names; none for other files."""
    from ...media.inputs.items import SUFFIXES as MEDIA_SUFFIXES  # needs the wing `media`

    folder_or_file = Path(name)
    try:
        if folder_or_file.is_dir():
            paths = visible_files(folder_or_file, MEDIA_SUFFIXES)
        else:
            matches = [folder_or_file] if folder_or_file.exists() else map(Path, iglob(name, recursive=True))
            paths = [path for path in matches if not path.is_dir()]
        return sorted(str(path) for path in paths if path.suffix.lower() in MEDIA_SUFFIXES)
    except (OSError, ValueError):  # not a path: the reader of tables raises the error
        return []
