"""The columns of corpora by the kind of their results, and the results of a shard, made again of its columns."""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from ..errors import DataError
from ..extending import registered
from ..results.attribution import Attribution
from ..results.base import Record, record_type
from ..results.storage.columns import (
    ANSWER,
    COLUMNS,
    COMMON,
    TEXT,
    UNREADABLE,
    Strings,
    arrow_types,
    column_types,
    metadata_of,
    result_row,
)
from ..results.storage.schema import FloatArray, plain
from ..results.units.media import Medium
from ..results.units.units import APART, Units

MEDIA: Mapping[str, type[Medium]] = registered("media")

CORPUS: Mapping[str, Mapping[str, Any]] = {
    "text": column_types(COMMON, TEXT) | {"words": Strings, "word_scores": FloatArray},
    "sources": column_types(COMMON, ANSWER),
    **{kind: column_types(COMMON, ANSWER) | {**record.columns} for kind, record in registered("results").items()},
    **{kind: column_types(COMMON, TEXT) | {**medium.row_columns} for kind, medium in MEDIA.items()},
}
"""The types of the columns of a corpus by the kind of its results."""

PREDICTION = {"prediction": "label", "prediction_id": "id", "value": "value", "probability": "probability"}
"""Fields of a prediction by their columns."""

JSON_FIELDS = ("settings", "diagnostics")
"""Fields that are stored as JSON text."""


def corpus_row(result: Record) -> dict[str, Any]:
    """Return a result as a row of a corpus, without `row` and `id`."""
    a, row = result.scored, result_row(result)
    for medium in MEDIA.values():
        if medium.unit_kind in a.units.kind:
            row |= medium.row(next(iter(a.media), None), len(a.units))
    return row


def states_of_shard(table: Any) -> list[dict[str, Any]]:
    """Return the states of the results in a shard of a corpus, as `from_dict` reads them."""
    common = metadata_of(table.schema)
    types = CORPUS[common["kind"]]
    table = table.select([name for name in table.column_names if name in types])
    if "target_spans" in table.column_names and "text" not in table.column_names:
        raise DataError("these sources were written without their texts; attribute --keep-text keeps them")
    table = _as_written(table, arrow_types({name: types[name] for name in table.column_names}))
    states = []
    for index, row in enumerate(table.to_pylist()):
        try:
            states.append(record_type(common["kind"])._state_of_row(row, _state(row, common)))  # noqa: SLF001
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
    return pyarrow.table(columns)


def _state(row: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of an attribution, from its row and from the values that all rows share."""
    medium, spans = MEDIA.get(common["kind"]), row.get("target_spans")
    units, a = _defaults(Units), _defaults(Attribution) | {"kind": Attribution.kind}
    shared_fields = ("version", "signed", "layers", "merge", "quantity", *JSON_FIELDS)
    a |= {name: common[name] for name in shared_fields if name in common}
    for name, (_, field) in COLUMNS.items():
        if isinstance(field, str) and (value := row.get(name)) is not None:
            (units if field.startswith("units.") else a)[field.removeprefix("units.")] = value
    a |= {name: json.loads(row[name]) for name in JSON_FIELDS if row.get(name)}
    for name in ("scores", "bias", "sink"):
        if a[name] is not None:
            axes, values = row["shape"] if name == "scores" else row["shape"][:-1], np.asarray(a[name], np.float32)
            a[name] = values.reshape(axes) if values.size == math.prod(axes) else values
    if "kind" in units:
        units["special"] = [kind in APART for kind in units["kind"]]
    else:
        units["special"] = [of is None for of in row["sequence_ids"]]
        units["kind"] = ["token" if medium is None or is_token else medium.unit_kind for is_token in units["special"]]
    shared = common.get("target") or {"kind": "part", "contrast": None, "contrast_id": None}
    nothing = [None] * len(row["target"])
    a["units"], a["targets"] = (
        units,
        [
            {**shared, "name": name, "id": id_, "position": row.get("position"), "span": span}
            for name, id_, span in zip(row["target"], row.get("target_ids") or nothing, spans or nothing, strict=True)
        ],
    )
    if "target_spans" not in row and row["prediction"] is not None:
        a["predictions"] = [{name: row[column] for column, name in PREDICTION.items()}]
    if medium is not None and (of_row := medium.of_row(row)) is not None:
        a["media"] = [plain(of_row)]
    return a


def _defaults(record: type[Any]) -> dict[str, Any]:
    """Return the default values of a record's fields, for those that have no column."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(record)
        if field.default is not MISSING or field.default_factory is not MISSING
    }
