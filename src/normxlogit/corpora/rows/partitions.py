"""Columns that stand in the paths of files: of `data/lang=de/part.parquet`, as Spark writes it, the column `lang`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import DataError, optional_module, reason_of
from ...long_runs.tables import RowBlock, RowSource, arrow_module

PathValues = Mapping[str, Any]
"""The values of the columns in a path, as Arrow scalars, by the names of the columns."""


def partition_values(paths: Sequence[str]) -> list[PathValues]:
    """Return the columns in the paths of files, as pyarrow's Hive partitioning reads them.

    Args:
        paths: The paths of all files, whose values tell the type of a column: numbers where all are whole numbers.

    Returns:
        For each file the values of its columns as Arrow scalars.

    Raises:
        DataError: If a path cannot be read as one of a partitioned data set.
    """
    arrow = arrow_module()
    dataset = optional_module("pyarrow.dataset", "")
    filesystem = optional_module("pyarrow.fs", "").LocalFileSystem()  # it is not used: only paths are read, no files
    # Values as strings and numbers, and not as entries of a dictionary of them.
    partitioning = dataset.HivePartitioning.discover(infer_dictionary=False)
    options = dataset.FileSystemFactoryOptions(partitioning=partitioning)
    factory = dataset.FileSystemDatasetFactory(filesystem, list(paths), dataset.ParquetFileFormat(), options)
    try:
        schema = factory.inspect(fragments=0)  # no file is opened
        fragments = list(factory.finish(schema).get_fragments())
    except arrow.ArrowException as error:
        raise DataError(f"the columns in the paths cannot be read: {reason_of(error)}") from None
    values = {}
    for fragment in fragments:
        keys = dataset.get_partition_keys(fragment.partition_expression)
        named = filter(None, keys)  # of a folder "=x" the name is empty
        values[fragment.path] = {name: arrow.scalar(keys[name], schema.field(name).type) for name in named}
    return [values[path] for path in paths]


def with_partition(source: RowSource, values: PathValues) -> RowSource:
    """Return the source of a file with the columns in its path, unless the file has such a column itself.

    Args:
        source: The rows of the file.
        values: The values of the columns in its path, as Arrow scalars.
    """
    if not values:
        return source
    return replace(source, names=partial(_names, source, values), blocks=partial(_blocks, source, values))


def _names(source: RowSource, values: PathValues) -> list[str]:
    """Return the columns of a file, and those in its path."""
    in_file = source.names()
    return [*in_file, *(name for name in values if name not in in_file)]


def _blocks(source: RowSource, values: PathValues, columns: Sequence[str]) -> Iterator[RowBlock]:
    """Yield some columns of the rows of a file; those in its path have one value for all rows.

    Args:
        source: The rows of the file.
        values: The values of the columns in its path, as Arrow scalars.
        columns: The names of the columns.
    """
    file_columns = source.names()
    in_path = [name for name in columns if name in values and name not in file_columns]
    in_file = [name for name in columns if name not in in_path]
    # A column of the file is read in any case: it tells how many rows there are.
    for block in source.blocks(in_file or file_columns[:1]):
        row_count = len(block.problems)
        repeated = {name: arrow_module().repeat(values[name], row_count) for name in in_path}
        yield replace(block, columns={**block.columns, **repeated})
