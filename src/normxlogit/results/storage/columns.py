"""Results as Parquet files, data sets and rows of corpora.

There is one layout for all results. A file that `save` writes has a few columns more than a corpus, the last of which
has the other fields as JSON; the file's metadata have as JSON what all rows share. In a corpus the names of the columns
that `save` adds are free: its user may keep input columns of these names.
"""

import json
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from ...errors import DataError, reason_of
from ...extending import named, registered
from ..attribution import Attribution
from ..base import Record, record_type
from ..targets import prediction_of
from ..units.units import Units
from .files import json_text, replacing
from .schema import FORMAT_VERSION, FloatArray, Index, Number, checked_version, plain
from .tables import optional_module

METADATA = b"normxlogit"
"""Key in a file's metadata for the values that all its rows share, as JSON."""

UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""Errors that reading a damaged or unrelated file may raise."""

NO_ARROW = "Parquet and datasets need pyarrow: pip install pyarrow"

Strings = tuple[str, ...]
Spans = tuple[tuple[Index, Index], ...]

COMMON: Mapping[str, Any] = {
    "row": int,
    "id": str,
    "text": str,
    "units": Strings,
    "spans": Spans,
    "sequence_ids": tuple[np.int8, ...],
    "scores": FloatArray,
    "shape": tuple[Index, ...],
    "target": Strings,
    "bias": FloatArray,
    "sink": FloatArray,
    "sinks": tuple[Index, ...],
    "diagnostics": str,
    "notes": Strings,
    "method": str,
    "model": str,
}
"""The columns of every result, with their types."""

TOKENS: Mapping[str, Any] = {
    "text_pair": str,
    "unit_ids": tuple[Index, ...],
    "word_spans": Spans,
    "words": Strings,
    "word_scores": FloatArray,
    "prediction": str,
    "prediction_id": Index,
    "value": Number,
    "probability": Number,
    "target_ids": tuple[Index, ...],
    "position": Index,
}
ANSWER: Mapping[str, Any] = {
    "completion": str,
    "reasoning": Spans,
    "marked_reasoning": Spans,
    "unit_kinds": Strings,
    "unit_names": Strings,
    "shares": FloatArray,
    "target_spans": Spans,
    "settings": str,
}
RESULTS: Mapping[str, Mapping[str, Any]] = {
    "text": {**COMMON, **TOKENS},
    "sources": {**COMMON, **ANSWER},
    **{kind: {**COMMON, **ANSWER, **result.stored, **result.derived} for kind, result in registered("results").items()},
}
"""The columns of results by their kind."""

SAVED: Mapping[str, Any] = {
    name: type_
    for columns in (*RESULTS.values(), {"kind": str, "rest": str})
    for name, type_ in columns.items()
    if name not in ("words", "word_scores")
}
"""The columns of a file that `save` writes."""

FIELDS: Mapping[str, str] = {
    **{name: name for name in ("text", "text_pair", "completion", "method", "model", "sinks", "notes")},
    **{name: name for name in ("reasoning", "marked_reasoning")},
    **{name: name for name in ("scores", "bias", "sink")},
    "units": "units.text",
    "unit_kinds": "units.kind",
    "unit_names": "units.name",
    "unit_ids": "units.ids",
    "word_spans": "units.words",
    "spans": "units.spans",
    "sequence_ids": "units.sequence",
}
"""Fields of an attribution, or of its units, by their columns."""

JSON_FIELDS = ("settings", "diagnostics")
"""Fields that are stored in columns of JSON text."""

PREDICTION = {"prediction": "label", "prediction_id": "id", "value": "value", "probability": "probability"}
"""Fields of a prediction by their columns."""

DERIVED = ("words", "word_scores", "shares")
"""Columns that are computed from the others."""

DEFAULTS: Mapping[Any, Mapping[str, Any]] = {
    record: {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(record)
        if field.default is not MISSING or field.default_factory is not MISSING
    }
    for record in (Attribution, Units)
}
"""Default values of the fields of records for which a row has no column."""


def arrow_types(columns: Mapping[str, Any], absent: Iterable[str] = ()) -> dict[str, Any]:
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
    first, *further = get_args(type_)
    return pyarrow.list_(_arrow_type(first), -1 if further == [...] else 1 + len(further))


# --- written ----------------------------------------------------------------------------------------------------------


def result_table(results: Sequence[Record], *, single: bool = False) -> Any:
    """Return results as an Arrow table, one row a result; its metadata mark a single result."""
    import pyarrow

    types = arrow_types(SAVED)
    common = {"format_version": FORMAT_VERSION, "single": single}
    rows = [{"row": index, "id": str(index), **_saved_row(result)} for index, result in enumerate(results)]
    schema = pyarrow.schema(types.items(), metadata={METADATA: json.dumps(common)})
    try:
        return pyarrow.Table.from_pylist(rows, schema)
    except (OverflowError, ValueError) as error:  # half a surrogate pair, an index of more than 32 bits
        raise DataError(f"cannot be written as Parquet: {error}") from None


def _saved_row(result: Record) -> dict[str, Any]:
    a = result.scored
    state = {name: value for name, value in vars(a).items() if name not in (*FIELDS, *JSON_FIELDS)}
    rest = json_text(plain(state | {"units": {"special": a.units.special}}))
    return result_row(result) | {"kind": result.kind, "rest": rest}


def result_row(result: Record) -> dict[str, Any]:
    """Return a result as a row of a corpus, without `row` and `id`."""
    a = result.scored
    row: dict[str, Any] = {column: attrgetter(path)(a) for column, path in FIELDS.items()}
    row |= {name: None if row[name] is None else row[name].ravel() for name in ("scores", "bias", "sink")}
    row |= {name: json_text(plain(getattr(a, name))) for name in JSON_FIELDS}
    names, ids, spans, positions = zip(*((t.name, t.id, t.span, t.position) for t in a.targets), strict=True)
    row |= {
        "unit_names": a.units.name or None,
        "shape": a.scores.shape,
        "target": names,
        "target_ids": None if None in ids else ids,
        "target_spans": None if None in spans else spans,
        "position": positions[0] if len(set(positions)) == 1 else None,
    }
    if (prediction := prediction_of(a)) is not None:
        row |= {column: getattr(prediction, name) for column, name in PREDICTION.items()}
    if a.targets[0].kind == "part":
        row["shares"] = a.whole().shares
    return row | result._row()


# --- read -------------------------------------------------------------------------------------------------------------


def metadata_of(schema: Any) -> Mapping[str, Any]:
    """Return the values in a file's metadata that all its rows share; {} if there are none.

    Raises:
        DataError: If they are of a version that this library does not read.
    """
    if METADATA not in (schema.metadata or {}):
        return {}
    return checked_version(dict(json.loads(schema.metadata[METADATA])))


def result_states(table: Any) -> list[dict[str, Any]]:
    """Return the states of the results in a table, as `from_dict` reads them."""
    if "shard" in metadata_of(table.schema):
        states: list[dict[str, Any]] = named("normxlogit.long_runs.columns:states_of_shard")(table)
        return states
    return states_of_rows(table, SAVED, DERIVED, lambda row: (row["kind"], json.loads(row["rest"])))


def states_of_rows(
    table: Any, types: Mapping[str, Any], derived: Container[str], rest_of: Callable[[dict[str, Any]], tuple[str, Any]]
) -> list[dict[str, Any]]:
    """Return the states of the results in the rows of a table.

    Args:
        table: The table.
        types: The types of its columns.
        derived: Columns that are computed from the others.
        rest_of: Returns the kind of the result of a row, and the fields of its attribution that have no columns.

    Raises:
        DataError: If a row holds no result, or its text was not kept.
    """
    table = table.select([name for name in table.column_names if name in types and name not in derived])
    if "target_spans" in table.column_names and "text" not in table.column_names:
        raise DataError("these sources were written without their texts; attribute --keep-text keeps them")
    table = _as_written(table, arrow_types({name: types[name] for name in table.column_names}))
    states = []
    for index, row in enumerate(table.to_pylist()):
        try:
            states.append(_state(row, *rest_of(row)))
        except UNREADABLE as error:  # noqa: PERF203  # names the row
            raise DataError(f"result {index}: not an attribution: {error!r}") from None
    return states


def _as_written(table: Any, types: Mapping[str, Any]) -> Any:
    """Return a table with the types that were written; pandas has NaN for null, and then floats for whole numbers."""
    import pyarrow

    columns = {
        name: column
        if column.type == types[name]
        else pyarrow.array(column.to_pylist(), types[name], from_pandas=not pyarrow.types.is_floating(types[name]))
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pyarrow.table(columns).replace_schema_metadata(table.schema.metadata)


def _state(row: dict[str, Any], kind: str, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a result from its row, its kind and the fields of its attribution that have no columns."""
    if kind not in (*RESULTS, Attribution.kind):
        raise ValueError(f"kind: {kind!r}")
    units = {**DEFAULTS[Units], **rest["units"]}
    a = {**DEFAULTS[Attribution], **rest, "kind": Attribution.kind, "units": units}
    for column, path in FIELDS.items():
        if (value := row.get(column)) is not None:
            (units if path.startswith("units.") else a)[path.removeprefix("units.")] = value
    a |= {name: json.loads(row[name]) if row.get(name) else rest.get(name, {}) for name in JSON_FIELDS}
    for name in ("scores", "bias", "sink"):
        if a[name] is not None:
            axes, values = row["shape"] if name == "scores" else row["shape"][:-1], np.asarray(a[name], np.float32)
            a[name] = values.reshape(axes) if values.size == math.prod(axes) else values
    return record_type(kind)._state_of_row(row, a)


# --- files ------------------------------------------------------------------------------------------------------------


def write_parquet(results: Sequence[Record], path: str | Path, *, single: bool = False) -> None:
    """Write results to a Parquet file atomically, with checksums of its pages; `single` marks one that is no list."""
    parquet = optional_module("pyarrow.parquet", NO_ARROW)
    table = result_table(results, single=single)
    with replacing(path) as temporary:
        parquet.write_table(table, temporary, write_page_checksum=True)


def to_dataset(results: Sequence[Record]) -> Any:
    """Return results as a `datasets.Dataset`."""
    optional_module("pyarrow", NO_ARROW)
    datasets = optional_module("datasets", "a dataset needs datasets: pip install datasets")
    return datasets.Dataset(datasets.table.InMemoryTable(result_table(results)))


def read_parquet(path: str | Path) -> dict[str, Any]:
    """Return the results in a file, of `write_parquet` or of a corpus, as `Attributions.from_dict` reads them.

    Raises:
        DataError: If it is not such a file, or pyarrow is missing.
    """
    with open_parquet(lambda: Path(path).open("rb"), path) as file:
        table = file.read()
        table.validate(full=True)
        states = result_states(table)
        if metadata_of(table.schema).get("single") and len(states) == 1:
            return states[0]
        return {"format_version": FORMAT_VERSION, "attributions": states}


@contextmanager
def open_parquet(open_file: Callable[[], Any], name: str | Path, advice: str = "") -> Iterator[Any]:
    """Open a Parquet file for reading, with checksums verified and errors as `DataError`.

    Args:
        open_file: Opens the file in binary mode.
        name: The name of the file in errors.
        advice: Advice for a damaged file.

    Yields:
        A `pyarrow.parquet.ParquetFile`.
    """
    parquet = optional_module("pyarrow.parquet", NO_ARROW)
    arrow_errors = optional_module("pyarrow", NO_ARROW).ArrowException
    try:
        with open_file() as file:
            yield parquet.ParquetFile(file, page_checksum_verification=True)
    except (*UNREADABLE, arrow_errors) as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"cannot read {name}: {error.strerror}") from None
        reason = reason_of(error)
        what = f"not Parquet of normxlogit, or damaged ({type(error).__name__}: {reason})"
        raise DataError(f"{name}: {what}" + (f"; {advice}" if advice else "")) from None
