"""Classification and regression data: GLUE's tasks, and files with the same kinds of columns."""

import csv
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..inputs.text_files import dialect_of
from ..results.storage.tables import optional_module

__all__ = ["SAMPLE", "TASKS", "Example", "GlueTask", "load_examples", "read_rows", "task_named"]

SAMPLE = "reviews"
"""A hundred review sentences that come with the package: 1 for praise, 0 for criticism."""

FORMATS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}


@dataclass(frozen=True)
class GlueTask:
    """A task of GLUE as the experiments use it.

    Attributes:
        columns: The text column, or the two of a pair.
        labels: Label names by index; empty for regression.
        hub: Configuration of the hub's `nyu-mll/glue`.
        validation: Its validation split on the hub.
    """

    name: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    hub: str
    validation: str = "validation"


TASKS = {
    task.name: task
    for task in (
        GlueTask("sst2", ("sentence",), ("negative", "positive"), "sst2"),
        GlueTask(
            "mnli",
            ("premise", "hypothesis"),
            ("entailment", "neutral", "contradiction"),
            "mnli",
            "validation_mismatched",
        ),
        GlueTask("qnli", ("question", "sentence"), ("entailment", "not_entailment"), "qnli"),
        GlueTask("stsb", ("sentence1", "sentence2"), (), "stsb"),
    )
}


@dataclass(frozen=True)
class Example:
    """One text (or pair) with its gold label: a class by its index or name, or a value for regression."""

    text: str | tuple[str, str]
    label: int | float | str


def task_named(name: str) -> GlueTask:
    """Look a task up.

    Raises:
        DataError: If there is no such task.
    """
    if name not in TASKS:
        raise DataError(f"no task named {name!r}; there are {', '.join(TASKS)}")
    return TASKS[name]


def load_examples(
    source: Any,
    *,
    split: str = "validation",
    data_dir: str | Path | None = None,
    columns: str | Sequence[str] = (),
    label_column: str = "label",
    limit: int | None = None,
) -> list[Example]:
    """Read labelled texts.

    Args:
        source: "reviews", "sst2", "mnli", "qnli", "stsb", a JSONL, Parquet, CSV or TSV file, a data set on the hub, or
            rows in memory: a table of pandas, Polars or Arrow, a `datasets.Dataset`, or a list of mappings.
        split: Which split; for a folder the file of this name in it.
        data_dir: Folder that holds `SPLIT.jsonl` (or .parquet, .csv, .tsv), or a folder of this kind for each task.
        columns: The text column, or two for pairs; GLUE's own by default.
        label_column: The gold labels, as indices, names, booleans or (for regression) values.
        limit: Only the first rows.

    Raises:
        DataError: If there is no such data, or a column is missing, empty or of the wrong kind; names file, row and
            column.
    """
    name = str(source) if isinstance(source, str | Path) else ""
    if name == SAMPLE and data_dir is None:
        lines = Path(__file__).with_name(f"{SAMPLE}.jsonl").read_text(encoding="utf-8").splitlines()
        return [Example(**json.loads(line)) for line in lines[:limit]]
    task = TASKS.get(name)
    columns = ((columns,) if isinstance(columns, str) else tuple(columns)) or (task.columns if task else ())
    rows, source_name = _read_source(source, name, task, split, data_dir)
    if not columns:
        columns = _guessed(rows.column_names, source_name)
    missing = [column for column in (*columns, label_column) if column not in rows.column_names]
    if missing:
        advice = "; label_column (--label-column) names the labels'" if missing == ["label"] else ""
        existing = ", ".join(rows.column_names)
        raise DataError(f"{source_name}: no column {', '.join(map(repr, missing))}; it has {existing}{advice}")
    if limit is not None:
        rows = rows.select(range(min(limit, len(rows))))
    if not len(rows):
        raise DataError(f"{source_name}: empty")
    return [_example(row, number, columns, label_column, source_name) for number, row in enumerate(rows)]


def _read_source(
    source: Any, name: str, task: GlueTask | None, split: str, data_dir: str | Path | None
) -> tuple[Any, str]:
    """Return the rows of a source, as a `datasets.Dataset`, and the name of the source for errors.

    Args:
        source: As in `load_examples`.
        name: The source, if it is a name or a path; empty for rows in memory.
        task: The task of GLUE with this name.
        split: As in `load_examples`.
        data_dir: As in `load_examples`.
    """
    if not isinstance(source, str | Path):
        return _rows_in_memory(source), f"the {type(source).__name__}"
    path = _local_file(name, split, data_dir) if name else None
    if path is not None:
        return read_rows(path), str(path)
    if data_dir is not None:
        raise DataError(
            f"{data_dir}: no {split}.jsonl, .parquet, .csv or .tsv there, and none in {Path(data_dir) / name}"
        )
    source_name = f"{name} ({split})"
    load_dataset = _datasets().load_dataset
    if task is not None and split == "validation":
        split = task.validation
    try:
        rows = load_dataset("nyu-mll/glue", task.hub, split=split) if task else load_dataset(name, split=split)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{source_name}: could not be downloaded from the hub ({reason}); pass data_dir") from None
    return rows, source_name


def _rows_in_memory(table: Any) -> Any:
    """Return the rows of a table, of columns by name, or of a list of mappings, as a `datasets.Dataset`."""
    Dataset = _datasets().Dataset  # noqa: N806  # a class
    if isinstance(table, Dataset):
        return table
    to_rows = next((name for name in ("to_pylist", "to_dicts") if hasattr(table, name)), None)
    if to_rows is not None:  # Arrow; Polars
        rows = getattr(table, to_rows)()
    else:
        rows = table.to_dict("records") if hasattr(table, "to_dict") and hasattr(table, "columns") else table
    try:
        if isinstance(rows, Mapping):
            return Dataset.from_dict({name: list(column) for name, column in rows.items()})
        return Dataset.from_list([dict(row) for row in rows])
    except (TypeError, ValueError) as error:  # rows that are texts; pyarrow's, of a column of several kinds
        raise DataError(
            "expected rows with a text and a label: a file, a table, or mappings of columns by their names "
            f"({str(error).partition(chr(10))[0]})"
        ) from None


def read_rows(path: Path) -> Any:
    """Read the rows of a JSONL, Parquet, CSV or TSV file; cells of the last two are strings.

    Raises:
        DataError: If it cannot be read.
    """
    datasets = _datasets()
    had_progress_bars, verbosity = not datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    datasets.disable_progress_bars()  # a local file takes no time to speak of
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # the error is raised once, below
    try:
        options = _table_options(path) if FORMATS[path.suffix] == "csv" else {}
        return datasets.load_dataset(FORMATS[path.suffix], data_files=str(path), split="train", **options)
    except StopIteration:  # the reader's result for an empty file
        raise DataError(f"{path}: empty") from None
    except (datasets.exceptions.DatasetGenerationError, ValueError) as error:
        reason = str(error.__cause__ or error).strip().partition("\n")[0]
        raise DataError(f"{path}: cannot be read as {FORMATS[path.suffix]}: {reason}") from None
    finally:
        datasets.logging.set_verbosity(verbosity)
        if had_progress_bars:
            datasets.enable_progress_bars()


def _table_options(path: Path) -> dict[str, Any]:
    """Return options for CSV and TSV, so that pandas keeps texts such as "NA" and "1984" as texts."""
    with path.open("rb") as file:
        encoding, separator, skipped = dialect_of(file, path.suffix[1:])
    with path.open(encoding=encoding, newline="") as lines:
        names = next(csv.reader(islice(lines, skipped, None), delimiter=separator), [])
    features = _datasets().Features({name: _datasets().Value("string") for name in names})
    options = {"sep": separator, "encoding": encoding, "skiprows": skipped}
    return {**options, "features": features, "keep_default_na": False}


def _datasets() -> Any:
    """Import the package that reads data."""
    return optional_module("datasets", "data sets are read by the package datasets: pip install 'normxlogit[eval]'")


def _local_file(name: str, split: str, data_dir: str | Path | None) -> Path | None:
    """Return the file of a data set: `name` itself, or that of the split in `data_dir`; None if there is none."""
    if Path(name).suffix in FORMATS:
        path = Path(name)
        if not path.is_file():
            raise DataError(f"{path}: no such file")
        return path
    if data_dir is None:
        return None
    folders = [Path(data_dir) / name, Path(data_dir)]
    candidates = (folder / f"{split}{suffix}" for folder in folders for suffix in FORMATS)
    return next((path for path in candidates if path.is_file()), None)


def _guessed(names: Sequence[str], where: str) -> tuple[str, ...]:
    for columns in (*(task.columns for task in TASKS.values()), ("text",)):
        if all(c in names for c in columns):
            return columns
    raise DataError(f"{where}: columns (--columns) says which column holds the text; it has {', '.join(names)}")


def _example(row: Any, row_number: int, columns: Sequence[str], label_column: str, source_name: str) -> Example:
    """Return a row as an example, after checking that its texts are texts and its label is a number or a name."""
    for column in columns:
        if not isinstance(text := row[column], str) or not text.strip():
            raise DataError(f"{source_name}, row {row_number}, column {column!r}: expected a text, got {text!r}")
    gold = _number(row[label_column]) if isinstance(row[label_column], str) else row[label_column]
    if not isinstance(gold, int | float | str) or gold != gold or gold == "":
        place = f"{source_name}, row {row_number}, column {label_column!r}"
        raise DataError(f"{place}: expected a number or a label's name, got {gold!r}")
    texts = [row[column] for column in columns]
    return Example(texts[0] if len(texts) == 1 else (texts[0], texts[1]), gold)


def _number(text: str) -> int | float | str:
    """Return a text as a number; the text itself if it is not a number."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
