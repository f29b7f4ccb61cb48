"""Results as Parquet files, data sets and rows of corpora.

A row has a result in columns, which queries and other libraries read, and in the column "result_json" what of it is in
no column; `load` puts both together.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from ...errors import DataError, optional_module, reason_of
from ...extending import registered
from ..attribution import Attribution
from ..base import Record
from ..targets import common_position, prediction_of
from .files import replacing
from .schema import (
    FORMAT_VERSION,
    Fields,
    FloatArray,
    Index,
    IndexSpans,
    Indices,
    Number,
    State,
    Strings,
    checked_version,
    field_names,
    plain,
)

METADATA = b"normxlogit"
"""The key in a file's metadata for the values that all its rows share, as JSON."""

NO_ARROW = "Parquet and datasets need pyarrow: pip install pyarrow"
"""What is said where pyarrow is not installed."""

UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""Errors that reading a damaged or unrelated file may raise."""


class Column(NamedTuple):
    """A column of a file, with a value of each result."""

    type: Any  # as in the schema
    value: str | Callable[[Attribution], Any]  # the attribution's field that it is read back to, or what computes it

    def of(self, a: Attribution) -> Any:
        """Return the value of an attribution in it."""
        return attrgetter(self.value)(a) if isinstance(self.value, str) else self.value(a)


def _of_prediction(field: str, a: Attribution) -> Any:
    """Return a field of the prediction, such as its label; None if there is no single prediction."""
    return getattr(prediction_of(a), field, None)


def _of_targets(field: str, a: Attribution) -> list[Any] | None:
    """Return a field of all targets; None if one has no such value."""
    values = [getattr(target, field) for target in a.targets]
    return None if None in values else values


COMMON = {
    "text": Column(str, "text"),
    "units": Column(Strings, "units.text"),
    "unit_kinds": Column(Strings, "units.kind"),
    "special": Column(tuple[bool, ...], "units.special"),
    "spans": Column(IndexSpans, "units.spans"),
    "sequence_ids": Column(tuple[np.int8, ...], "units.sequence"),
    "scores": Column(FloatArray, "scores"),
    "shape": Column(Indices, lambda a: a.scores.shape),
    "target": Column(Strings, partial(_of_targets, "name")),
    "bias": Column(FloatArray, lambda a: a.bias),
    "sink": Column(FloatArray, lambda a: a.sink),
    "sinks": Column(Indices, "sinks"),
    "diagnostics": Column(str, lambda a: _json(a.diagnostics)),
    "notes": Column(Strings, "notes"),
    "method": Column(str, "method"),
    "model": Column(str, "model"),
}
"""The columns of every result; arrays are flat."""

TEXT = {
    "text_pair": Column(str, "text_pair"),
    "unit_ids": Column(Indices, "units.ids"),
    "word_spans": Column(IndexSpans, "units.words"),
    "prediction": Column(str, partial(_of_prediction, "label")),
    "prediction_id": Column(Index, partial(_of_prediction, "id")),
    "value": Column(Number, partial(_of_prediction, "value")),
    "probability": Column(Number, partial(_of_prediction, "probability")),
    "target_ids": Column(Indices, partial(_of_targets, "id")),
    "position": Column(Index, lambda a: common_position(a.targets)),
}

ANSWER = {
    "completion": Column(str, "completion"),
    "reasoning": Column(IndexSpans, "reasoning"),
    "marked_reasoning": Column(IndexSpans, "marked_reasoning"),
    "unit_names": Column(Strings, "units.name"),
    "shares": Column(FloatArray, lambda a: a.whole().shares if a.targets[0].kind == "part" else None),
    "target_spans": Column(IndexSpans, partial(_of_targets, "span")),
    "settings": Column(str, lambda a: _json(a.settings)),
}
"""Further columns of texts, and of answers."""

COLUMNS: Mapping[str, Column] = {**COMMON, **TEXT, **ANSWER}

FIELDS = {name: column.value for name, column in COLUMNS.items() if isinstance(column.value, str)}
"""The field of an attribution in each column from which it is read back."""


def column_types(*groups: Mapping[str, Column]) -> Fields:
    """Return the types of some columns, with the number and the name of a row first and its state last."""
    types = {name: column.type for group in groups for name, column in group.items()}
    return {"row": int, "id": str, **types, "result_json": str}


@cache
def saved_types() -> Fields:
    """Return the types of the columns of a file that `save` writes."""
    of_records = (record.columns for record in registered("results").values())
    return column_types(COLUMNS) | {name: type_ for columns in of_records for name, type_ in columns.items()}


def arrow_types(columns: State, absent: Iterable[str] = ()) -> Fields:
    """Return the Arrow types of columns."""
    return {name: _arrow_type(type_) for name, type_ in columns.items() if name not in absent}


def _arrow_type(type_: Any) -> Any:
    """Return the Arrow type of a type of the schema."""
    import pyarrow

    scalars = {str: "string", bool: "bool", int: "int64", np.int8: "int8", Index: "int32", Number: "float64"}
    if type_ in scalars:
        return pyarrow.type_for_alias(scalars[type_])
    if type_ == FloatArray:
        return pyarrow.list_(pyarrow.float32())
    if hasattr(type_, "_fields"):
        return pyarrow.struct(arrow_types(get_type_hints(type_, include_extras=True)).items())
    if get_origin(type_) is Literal:
        return pyarrow.string()
    entry_type, *further = get_args(type_)  # of a tuple: `...` is one of any length
    any_length = -1  # as Arrow calls it
    return pyarrow.list_(_arrow_type(entry_type), any_length if further == [...] else 1 + len(further))


def result_row(result: Record, columns: Collection[str]) -> Fields:
    """Return a result as a row with some columns, without `row` and `id`; its state has what is in none of them.

    Args:
        result: The result.
        columns: The names of the columns, of those in `COLUMNS`; others are ignored.
    """
    if result.error is not None:
        raise DataError("inputs that were not explained have no columns: save .json, or those whose error is None")
    a = result.scored
    values = {name: column.of(a) for name, column in COLUMNS.items() if name in columns}
    state = _state_beside(values.keys(), a)
    if result is not a:  # a result that holds the attribution, such as citations
        fields_of_result = _fields_without(result, ())
        # In the place of the attribution stands what of it is in no column.
        fields = {name: state if value is a else value for name, value in fields_of_result.items()}
        state = {"kind": result.kind, **fields}
    cells = {name: value.ravel() if isinstance(value, np.ndarray) else value for name, value in values.items()}
    return cells | {**result.column_values(), "result_json": _json(state)}


def _state_beside(columns: Collection[str], a: Attribution) -> Fields:
    """Return what of an attribution is in none of some columns."""
    in_columns = {FIELDS[name] for name in columns if name in FIELDS}
    units = _fields_without(a.units, in_columns, "units.")
    return {"kind": a.kind, **_fields_without(a, in_columns), "units": units}


def _fields_without(record: Any, left_out: Collection[str], prefix: str = "") -> Fields:
    """Return the fields of a record but some, by their names.

    Args:
        record: A dataclass or a named tuple.
        left_out: The fields that are left out, each named with the prefix.
        prefix: Such as "units." for the fields of an attribution's units.
    """
    return {name: getattr(record, name) for name in field_names(record) if prefix + name not in left_out}


def _json(value: Any) -> str:
    return json.dumps(plain(value), allow_nan=False)


def metadata_of(schema: Any) -> State:
    """Return the values in a file's metadata that all its rows share; {} if there are none."""
    if METADATA not in (schema.metadata or {}):
        return {}
    return checked_version(dict(json.loads(schema.metadata[METADATA])))


def result_table(results: Sequence[Record], *, single: bool = False) -> Any:
    """Return results as an Arrow table, one row a result; its metadata mark a single result."""
    import pyarrow

    common = {"format_version": FORMAT_VERSION, "single": single}
    types = saved_types()
    rows = [{"row": index, "id": str(index), **result_row(result, types)} for index, result in enumerate(results)]
    schema = pyarrow.schema(arrow_types(types).items(), metadata={METADATA: json.dumps(common)})
    try:
        return pyarrow.Table.from_pylist(rows, schema)
    except (OverflowError, ValueError) as error:  # half a surrogate pair, an index of more than 32 bits
        raise DataError(f"cannot be written as Parquet: {error}") from None


def result_states(table: Any) -> list[Fields]:
    """Return the states of the results in a table, as `from_dict` reads them."""
    if "result_json" not in table.column_names:  # a corpus of answers without their texts is written without it
        raise DataError("these results were written without their texts (attribute --keep-text keeps them), or changed")
    columns_by_field = {
        field: _as_written(table[name], _arrow_type(COLUMNS[name].type)).to_pylist()
        for name, field in FIELDS.items()
        if name in table.column_names
    }
    shapes = table["shape"].to_pylist()
    states = list(map(json.loads, table["result_json"].to_pylist()))
    for row, state in enumerate(states):
        a = state.get("attribution", state)  # the result may hold the attribution
        for field, values in columns_by_field.items():
            record = a["units"] if field.startswith("units.") else a
            record[field.removeprefix("units.")] = values[row]
        a["scores"] = np.reshape(np.array(a["scores"], np.float32), shapes[row])
        # A corpus of predictions without their texts has `result_json`, but no columns of texts.
        a.setdefault("text", None)
        a.setdefault("text_pair", None)  # has no column where no text has a second one, either
    return states


def _as_written(column: Any, type_: Any) -> Any:
    """Return a column with its type; pandas has NaN for null, and then floats for whole numbers."""
    import pyarrow

    return column if column.type == type_ else pyarrow.array(column.to_pylist(), type_, from_pandas=True)


def write_parquet(results: Sequence[Record], path: str | Path, *, single: bool = False) -> None:
    """Write results to a Parquet file atomically, with checksums of its pages; `single` if it is not a list.

    Args:
        results: The results.
        path: The file.
        single: Whether it is read as the one result, and not as a collection of it.
    """
    parquet = optional_module("pyarrow.parquet", NO_ARROW)
    table = result_table(results, single=single)
    with replacing(path) as temporary:
        parquet.write_table(table, temporary, write_page_checksum=True)


def to_dataset(results: Sequence[Record]) -> Any:
    """Return results as a `datasets.Dataset`."""
    optional_module("pyarrow", NO_ARROW)
    datasets = optional_module("datasets", "a dataset needs datasets: pip install datasets")
    return datasets.Dataset(datasets.table.InMemoryTable(result_table(results)))


def read_parquet(path: str | Path) -> Fields:
    """Return the results in a file, of `write_parquet` or of a corpus, as `Attributions.from_dict` reads them."""
    with open_parquet(lambda: Path(path).open("rb"), path) as file:
        table = file.read(use_threads=False)
        table.validate(full=True)
        states = result_states(table)
        # Other libraries may keep the metadata of a file to which they add rows.
        if metadata_of(table.schema).get("single") and len(states) == 1:
            return states[0]
        return {"format_version": FORMAT_VERSION, "attributions": states}


@contextmanager
def open_parquet(open_file: Callable[[], Any], name: str | Path, advice: str = "") -> Iterator[Any]:
    """Open a Parquet file for reading, see `parquet_file`, with errors as `DataError`.

    Args:
        open_file: Opens the file of bytes.
        name: What errors call it.
        advice: What to do about a damaged file; empty for nothing.
    """
    arrow_errors = optional_module("pyarrow", NO_ARROW).ArrowException
    try:
        with open_file() as file:
            yield parquet_file(file)
    except (*UNREADABLE, arrow_errors) as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"cannot read {name}: {error.strerror}") from None
        problem = f"not Parquet of normxlogit, or damaged ({type(error).__name__}: {reason_of(error)})"
        raise DataError("; ".join(filter(None, [f"{name}: {problem}", advice]))) from None


def parquet_file(file: Any) -> Any:
    """Return pyarrow's reader of an open Parquet file, which verifies checksums.

    Read it with `use_threads=False`: Arrow's own threads may hold what they read of a Python file when the interpreter
    ends, and it aborts then (apache/arrow issue 34314).

    Args:
        file: A file that is open for reading bytes.
    """
    parquet = optional_module("pyarrow.parquet", NO_ARROW)
    return parquet.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
