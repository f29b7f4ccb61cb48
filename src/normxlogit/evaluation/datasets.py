"""Classification and regression data: GLUE's tasks, and files with the same kinds of columns."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ..errors import DataError, InputError, optional_module, reason_of
from ..inputs.texts import Text, is_column, plain_cell
from ..long_runs.cells import text_of
from ..long_runs.gold.meaning import GoldLabels, meaning_of
from ..long_runs.gold.values import entries_of
from ..long_runs.table_files import source_of_file
from ..long_runs.tables import RowSource, rows_and_problems, rows_of, source_in_memory

SAMPLE = "reviews"
"""A hundred review sentences that come with the package: 1 for praise, 0 for criticism."""

Parsed = TypeVar("Parsed")
"""The type that a row is parsed to."""

FORMATS = {".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet", ".csv": "csv", ".tsv": "tsv"}
"""The formats of files by the ends of their names."""

GLUE_ON_HUB = "nyu-mll/glue"
"""The repository on the hub whose configurations are the tasks of GLUE."""


@dataclass(frozen=True)
class GlueTask:
    """A task of GLUE as the experiments use it.

    Attributes:
        name: Its name in GLUE.
        columns: The text column, or the two of a pair.
        labels: The names of the labels by their indices; empty for regression.
        validation: The name of its validation split on the hub; MNLI has two of them.
    """

    name: str
    columns: tuple[str, ...]
    labels: tuple[str, ...] = ()
    validation: str = "validation"


TASKS = {
    "sst2": GlueTask("sst2", ("sentence",), ("negative", "positive")),
    "mnli": GlueTask(
        "mnli",
        ("premise", "hypothesis"),
        ("entailment", "neutral", "contradiction"),
        validation="validation_mismatched",
    ),
    "qnli": GlueTask("qnli", ("question", "sentence"), ("entailment", "not_entailment")),
    "stsb": GlueTask("stsb", ("sentence1", "sentence2")),
}

USUAL_COLUMNS = (*(task.columns for task in TASKS.values()), ("text",))
"""Names of the text column, or of the two of a pair, that are looked for, one after the other."""

GoldLabel = int | float | str | Sequence[int | float | str]
"""One label, or several where several are true."""


@dataclass(frozen=True)
class Example:
    """One text (or pair) with its gold label.

    Attributes:
        text: The text, or two.
        label: A class by its name or number, a value for regression; a list of classes, or a 0 or a 1 for each, where
            several are true.
        meaning: What the labels mean that are not names of labels of the model, such as the names of whole numbers.
    """

    text: Text
    label: GoldLabel
    meaning: GoldLabels = field(default_factory=GoldLabels)


class Examples(list[Example]):
    """Labelled texts of a table.

    Attributes:
        left_out: The rows of the table that are not among them: the reason of each, by its number from 0 on.
    """

    def __init__(self, examples: Iterable[Example] = ()) -> None:
        super().__init__(examples)
        self.left_out: dict[int, str] = {}


def task_named(name: str) -> GlueTask:
    """Return the task of GLUE with a name.

    Raises:
        DataError: If there is none.
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
    gold_labels: Any = None,
    limit: int | None = None,
) -> Examples:
    """Read labelled texts; rows that have no text or no label are left out, and counted.

    Args:
        source: "reviews", "sst2", "mnli", "qnli", "stsb", a JSONL, Parquet, CSV or TSV file, a data set on the hub, or
            rows in memory: a table of pandas, Polars or Arrow, a `datasets.Dataset`, or a list of mappings.
        split: Which split; for a folder the file of this name in it.
        data_dir: Folder that holds `SPLIT.jsonl` (or .parquet, .csv, .tsv), or a folder of this kind for each task.
        columns: The text column, or two for pairs; GLUE's own by default.
        label_column: The gold labels, as names, booleans, numbers or (for regression) values.
        gold_labels: What values mean that are not names of labels of the model: a mapping to labels such as
            {1: "negative", 5: "positive", 3: None}, where None leaves rows out; the names of whole numbers from 0 on,
            which a data set may have itself; or "id2label" if numbers count the labels of the model.
        limit: Only the first rows.

    Raises:
        DataError: If the source cannot be read, lacks a column, or no row has a text and a label.
    """
    name = str(source) if isinstance(source, str | Path) else ""
    if name == SAMPLE and data_dir is None:
        return _packaged_reviews(gold_labels, limit)
    task = TASKS.get(name)
    table, source_name = _open_source(source, name, task, split, data_dir)
    text_columns = _text_columns(table, columns, task, source_name)
    _check_columns((*text_columns, label_column), table.names(), source_name)
    distinct_columns = list(dict.fromkeys([*text_columns, label_column]))  # the labels may be those of a text column
    rows = islice(rows_and_problems(table, distinct_columns), limit)
    class_names = () if task is None else task.labels
    meaning = meaning_of(gold_labels, table.class_names().get(label_column, class_names))
    examples = Examples()
    for number, (problem, row) in enumerate(rows):
        try:
            examples.append(_example(problem, row, text_columns, label_column, meaning))
        except InputError as error:  # noqa: PERF203  # the row is left out, and the others are read
            examples.left_out[number] = str(error)
    if not examples:
        reasons = (f"row {number}: {reason}" for number, reason in examples.left_out.items())
        raise DataError(f"{source_name}: {next(reasons, 'empty')}")
    return examples


def _text_columns(
    table: RowSource, columns: str | Sequence[str], task: GlueTask | None, source_name: str
) -> Sequence[str]:
    """Return the column of texts, or the two of pairs: those that the caller names, the task's, or usual ones.

    Args:
        table: The rows.
        columns: The column that the caller names, or two; empty for none.
        task: The task of GLUE whose data it is; None for other data.
        source_name: What errors call the table.
    """
    named = (columns,) if isinstance(columns, str) else tuple(columns)
    if task is not None and not named:
        return task.columns
    existing = table.names()
    usual = (names for names in USUAL_COLUMNS if set(names) <= set(existing))
    text_columns = named or next(usual, ())
    if not text_columns:
        advice = f"columns (--columns) says which column holds the text; it has {', '.join(existing)}"
        raise DataError(f"{source_name}: {advice}")
    return text_columns


def _check_columns(columns: Sequence[str], existing: Sequence[str], source_name: str) -> None:
    """Refuse columns that a table does not have.

    Args:
        columns: The columns that are read.
        existing: Those of the table.
        source_name: What errors call the table.
    """
    missing = [column for column in columns if column not in existing]
    if missing:
        advice = "; label_column (--label-column) names the labels'" if missing == ["label"] else ""
        absent = ", ".join(map(repr, missing))
        raise DataError(f"{source_name}: no column {absent}; it has {', '.join(existing)}{advice}")


def _packaged_reviews(gold_labels: Any, limit: int | None) -> Examples:
    """Return the labelled reviews of the package."""
    lines = Path(__file__).with_name(f"{SAMPLE}.jsonl").read_text(encoding="utf-8").splitlines()
    meaning = meaning_of(gold_labels, TASKS["sst2"].labels)
    return Examples(Example(**json.loads(line), meaning=meaning) for line in lines[:limit])


def _open_source(
    source: Any, name: str, task: GlueTask | None, split: str, data_dir: str | Path | None
) -> tuple[RowSource, str]:
    """Return a source of rows, and its name for errors.

    Args:
        source: As in `load_examples`.
        name: The source as a string; empty for rows in memory.
        task: The task of GLUE that it names; None for none.
        split: As in `load_examples`.
        data_dir: As in `load_examples`.
    """
    if not isinstance(source, str | Path):
        return source_in_memory(source), f"the {type(source).__name__}"
    path = _local_file(name, split, data_dir)
    if path is not None:
        return _source_of_file(path), str(path)
    if data_dir is not None:
        raise DataError(f"{data_dir}: no {split}{' or '.join(FORMATS)} there, and none in {Path(data_dir) / name}")
    source_name = f"{name} ({split})"
    return _source_on_hub(name, task, split, source_name), source_name


def _source_on_hub(name: str, task: GlueTask | None, split: str, source_name: str) -> RowSource:
    """Return the rows of a data set on the hub, which is downloaded if it is not in the cache of `datasets`.

    Args:
        name: The name of the data set.
        task: The task of GLUE that it names; None for none.
        split: Which split.
        source_name: What errors call it.
    """
    datasets = optional_module("datasets", "data sets of the hub need datasets: pip install 'normxlogit[eval]'")
    repository_and_configuration: tuple[str, ...] = (name,)
    if task is not None:
        repository_and_configuration = (GLUE_ON_HUB, task.name)
        split = task.validation if split == "validation" else split
    try:
        return source_in_memory(datasets.load_dataset(*repository_and_configuration, split=split))
    except Exception as error:  # a missing data set, the network, a broken file: each has errors of its own
        reason = reason_of(error)
        raise DataError(f"{source_name}: could not be downloaded from the hub ({reason}); pass data_dir") from None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL, Parquet, CSV or TSV file; cells of the last two are strings.

    Raises:
        DataError: If the file, or a row of it, cannot be read.
    """
    source = _source_of_file(path)
    return list(rows_of(source, source.names()))


def parsed_rows(
    path: str | Path, parse: Callable[[dict[str, Any]], Parsed], problem: str = "", limit: int | None = None
) -> list[Parsed]:
    """Read the rows of a file as `read_rows`, and parse each, without its missing values.

    Args:
        path: The file.
        parse: Returns what a row holds, or raises an error that says what is wrong with it.
        problem: What the message calls a row that cannot be parsed, such as "not a minimal pair".
        limit: The most rows; None for all.

    Raises:
        DataError: If the file or a row of it cannot be read, or there is no row.
    """
    parsed = []
    for number, row in enumerate(read_rows(Path(path))[:limit]):
        try:
            parsed.append(parse({name: value for name, value in row.items() if value is not None}))
        except (ValueError, KeyError, TypeError, InputError) as error:  # noqa: PERF203  # names the row
            reasons = ": ".join(filter(None, (problem, str(error))))
            raise DataError(f"{path}, row {number}: {reasons}") from None
    if not parsed:
        raise DataError(f"{path}: empty")
    return parsed


def _source_of_file(path: Path) -> RowSource:
    """Return the source of a file of the `FORMATS`; one of another suffix is read as JSONL."""
    return source_of_file(lambda: path.open("rb"), str(path), FORMATS.get(path.suffix, "jsonl"))


def _local_file(name: str, split: str, data_dir: str | Path | None) -> Path | None:
    """Return the file of a data set: `name` itself, or that of the split in `data_dir`; None if there is none."""
    if Path(name).suffix in FORMATS:  # also if it is not there: the error on opening it names it
        return Path(name)
    folders = [] if data_dir is None else [Path(data_dir) / name, Path(data_dir)]
    candidates = (folder / f"{split}{suffix}" for folder in folders for suffix in FORMATS)
    return next((path for path in candidates if path.is_file()), None)


def _example(
    problem: str | None, row: Mapping[str, Any], columns: Sequence[str], label_column: str, meaning: GoldLabels
) -> Example:
    """Return a row as an example.

    Args:
        problem: Why the row cannot be read; None if it can.
        row: Its cells, by their columns.
        columns: The column of texts, or the two of pairs.
        label_column: The column of gold labels.
        meaning: What the values of that column mean.

    Raises:
        InputError: If it cannot be read, or has no text or no label.
    """
    if problem is not None:
        raise InputError(problem)
    texts = [text_of(row[column], column) for column in columns]
    for column, text in zip(columns, texts, strict=True):
        if not text.strip():
            raise InputError(f"no text: column {column!r} is empty")
    gold = _gold_label(row[label_column], label_column)
    if meaning.leaves_out(gold):
        raise InputError(f"no label: gold_labels (--gold-labels) has none for {gold!r}")
    return Example(texts[0] if len(texts) == 1 else (texts[0], texts[1]), gold, meaning)


def _gold_label(cell: Any, column: str) -> GoldLabel:
    """Return the label in a cell as a plain value; a list where several labels may be true."""
    cell = plain_cell(cell)
    if is_column(cell):
        return list(cell)
    labels = entries_of(cell)  # one label, or none where the cell is empty
    if not labels:
        raise InputError(f"no label: column {column!r} is empty")
    label = labels[0]
    return _parsed_number(label) if isinstance(label, str) else label


def _parsed_number(text: str) -> int | float | str:
    """Return a text as a number, since cells of CSV are texts; the text itself if it is not a number."""
    # First int, as classes are known by whole numbers.
    for number_type in (int, float):
        with suppress(ValueError):
            return number_type(text)
    return text
