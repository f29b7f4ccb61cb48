"""The columns of results in Parquet files, data sets and corpora: declared, written and read here.

A file that `save` writes has the columns of a corpus and a few more, the last of which has the other fields as JSON.
The file's metadata have as JSON what all rows share. In a corpus the names of the columns that `save` adds are free:
its user may keep input columns of these names.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .files import json_text
from .schema import plain
from .versions import FORMAT_VERSION, checked_version

if TYPE_CHECKING:
    from .base import Result
    from .sources import Sources


METADATA = b"normxlogit"
"""Key under which a file's metadata say what all its rows share, as JSON."""

UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What reading a file that is damaged, or something else, may raise."""

SOURCE_KINDS = ("sources", "citations")
"""The kinds of results that have the columns of sources."""

Kind = str | tuple["Kind"] | tuple["Kind", int]
"""An Arrow type by its name, a list of one, or a list of a fixed length."""

STRINGS: Kind = ("string",)
INDICES: Kind = ("int32",)
FLOATS: Kind = ("float32",)
SPANS: Kind = (("int32", 2),)

_LAST: Mapping[str, Kind] = {
    "bias": FLOATS,
    "sink": FLOATS,
    "sinks": INDICES,
    "diagnostics": "string",
    "notes": STRINGS,
    "method": "string",
    "model": "string",
}

CORPUS_TEXTS: Mapping[str, Kind] = {
    "row": "int64",
    "id": "string",
    "text": "string",
    "text_pair": "string",
    "tokens": STRINGS,
    "token_ids": INDICES,
    "offsets": SPANS,
    "sequence_ids": ("int8",),
    "scores": FLOATS,
    "shape": INDICES,
    "words": STRINGS,
    "word_scores": FLOATS,
    "prediction": "string",
    "prediction_id": "int32",
    "value": "float64",
    "probability": "float64",
    "target": STRINGS,
    "target_ids": INDICES,
    "position": "int32",
    **_LAST,
}
"""The columns of texts with scores of their tokens, in their order."""

CORPUS_SIGNALS: Mapping[str, Kind] = {
    **CORPUS_TEXTS,
    "rows": "int32",
    "columns": "int32",
    "first": "int32",
    "times": (("float64", 2),),
}
"""The columns of pictures and sounds with scores of their patches or frames, in their order."""

CORPUS_SOURCES: Mapping[str, Kind] = {
    "row": "int64",
    "id": "string",
    "text": "string",
    "completion": "string",
    "sources": STRINGS,
    "source_spans": SPANS,
    "source_texts": STRINGS,
    "scores": FLOATS,
    "shares": FLOATS,
    "part_spans": SPANS,
    "part_scores": FLOATS,
    "rest": FLOATS,
    "written": FLOATS,
    **_LAST,
    "settings": "string",
}
"""The columns of completions with scores of their sources, in their order."""

SUPPORT: Mapping[str, Kind] = {"sentence_shares": FLOATS, "sentence_sources": (STRINGS,)}
"""Columns of each sentence's share of the documents, and of the sources it rests on: both follow from the others."""

CORPUS_CITATIONS: Mapping[str, Kind] = {**CORPUS_SOURCES, "question": "string", **SUPPORT}
"""The columns of answers with citations, in their order."""

CORPUS: Mapping[str, Mapping[str, Kind]] = {
    "text": CORPUS_TEXTS,
    "image": CORPUS_SIGNALS,
    "audio": CORPUS_SIGNALS,
    "sources": CORPUS_SOURCES,
    "citations": CORPUS_CITATIONS,
}
"""The columns of a corpus by the kind of its results."""

SAVED_TEXTS: Mapping[str, Kind] = {**CORPUS_TEXTS, "kind": "string", "completion": "string", "rest": "string"}
SAVED_SOURCES: Mapping[str, Kind] = {**CORPUS_SOURCES, "own": "string"}

PREDICTION = {"prediction": "label", "prediction_id": "id", "value": "value", "probability": "probability"}
TARGET = {"target": "labels", "target_ids": "ids", "position": "position"}
"""Columns with the fields of predictions and targets."""


def arrow_types(columns: Mapping[str, Kind], absent: Iterable[str] = ()) -> dict[str, Any]:
    """Return the Arrow types of columns."""
    return {name: _arrow_type(kind) for name, kind in columns.items() if name not in absent}


def _arrow_type(kind: Kind) -> Any:
    import pyarrow

    if isinstance(kind, str):
        return pyarrow.type_for_alias(kind)
    return pyarrow.list_(_arrow_type(kind[0]), *kind[1:])


# --- written ----------------------------------------------------------------------------------------------------------


def result_table(results: "Sequence[Result]") -> Any:
    """Return results as an Arrow table, one row a result."""
    import pyarrow

    families = {result.kind in SOURCE_KINDS for result in results}
    if len(families) > 1:
        raise DataError("sources have columns of their own in Parquet: save them apart from others, or all as .json")
    of_sources = families == {True}
    row_of: Callable[[Any], dict[str, Any]] = _saved_sources if of_sources else text_row
    types = arrow_types(SAVED_SOURCES if of_sources else SAVED_TEXTS, ("words", "word_scores"))
    rows = [{"row": index, "id": str(index), **row_of(result)} for index, result in enumerate(results)]
    schema = pyarrow.schema(list(types.items()), metadata={METADATA: json.dumps({"format_version": FORMAT_VERSION})})
    try:
        columns = {name: pyarrow.array([row.get(name) for row in rows], kind) for name, kind in types.items()}
    except (OverflowError, ValueError) as error:  # half a surrogate pair, an index of more than 32 bits
        raise DataError(f"cannot be written as Parquet: {error}") from None
    return pyarrow.table(columns, schema=schema)


def source_row(result: "Sources") -> dict[str, Any]:
    """Return a completion with its sources as a row, without `row` and `id`."""
    return {
        **{name: getattr(result, name) for name in CORPUS_SOURCES if hasattr(result, name)},
        "sources": result.names,
        "source_spans": result.spans,
        "source_texts": [result.text[start:end] for start, end in result.spans],
        "part_spans": [(part.start, part.end) for part in result.parts],
        "part_scores": result.table.ravel(),
        "settings": json_text(plain(result.settings)),
        "diagnostics": json_text(plain(result.diagnostics)),
    }


def _saved_sources(result: Any) -> dict[str, Any]:
    state = {"kind": result.kind, **vars(result)}
    other_fields = {name: value for name, value in state.items() if name not in (*CORPUS_SOURCES, "table")}
    return source_row(result) | {"own": json_text(plain(other_fields))}


def text_row(result: "Result", columns: Mapping[str, Kind] = SAVED_TEXTS) -> dict[str, Any]:
    """Return a text with scores of its tokens as a row, without `row` and `id`; `rest` has what no column holds."""
    state = {"kind": result.kind, **vars(result)}
    scores, prediction, target = result.scores, state.pop("prediction", None), state.get("target")
    row = {"shape": scores.shape, "diagnostics": json_text(plain(state.pop("diagnostics")))}
    shapes = {"scores": scores.shape, "bias": scores.shape[:-1], "sink": scores.shape[:-1]}
    for name, shape in shapes.items():  # the biases of two texts have another shape
        if state[name] is not None and state[name].shape == shape:
            row[name] = state.pop(name).ravel()
    if prediction is not None:
        row |= {name: getattr(prediction, part) for name, part in PREDICTION.items()}
    if target is not None:
        row |= {name: getattr(target, part) for name, part in TARGET.items()}
    row |= {name: state.pop(name) for name in columns.keys() & state.keys() - {"target", "bias", "sink"}}
    return row | {"rest": json_text(plain(state))}


# --- read -------------------------------------------------------------------------------------------------------------


def metadata_of(schema: Any) -> Mapping[str, Any]:
    """Return the values in a file's metadata that all its rows share; {} for a file without.

    Raises:
        DataError: If they are of a version that this library does not read.
    """
    if METADATA not in (schema.metadata or {}):
        return {}
    return checked_version(dict(json.loads(schema.metadata[METADATA])))


def result_states(table: Any) -> list[dict[str, Any]]:
    """Return the states of the results in a table, as `from_dict` reads them."""
    common = metadata_of(table.schema)
    of_sources = "part_scores" in table.column_names
    names = CORPUS[common["kind"]] if "shard" in common else [SAVED_TEXTS, SAVED_SOURCES][of_sources]
    table = table.select([name for name in table.column_names if name in names and name not in SUPPORT])
    if of_sources and "text" not in table.column_names:
        raise DataError("these sources were written without their texts; attribute --keep-text keeps them")
    states = []
    for index, row in enumerate(table.to_pylist()):
        try:
            states.append(_source_state(row, common) if of_sources else _text_state(row, common))
        except UNREADABLE as error:  # noqa: PERF203  # names the row
            raise DataError(f"result {index}: not an attribution: {error!r}") from None
    return states


def _text_state(row: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    state = {"text": None, "text_pair": None, **common, **json.loads(row.pop("rest", None) or "{}")}
    shape = row.pop("shape")
    for name in ("scores", "bias", "sink"):
        if row.get(name) is not None:
            axes = shape if name == "scores" else shape[:-1]
            row[name] = np.asarray(row[name], np.float32).reshape(axes)
    if row.get("diagnostics") is not None or "diagnostics" not in state:
        row["diagnostics"] = json.loads(row.get("diagnostics") or "{}")
    for name, first, parts in (("prediction", "label", PREDICTION), ("target", "labels", TARGET)):
        values = {part: row.pop(column) for column, part in parts.items() if column in row}
        if values.get(first) is not None:
            state[name] = {**state.get(name, {}), **values}
    state |= {name: value for name, value in row.items() if value is not None or name not in state}
    if "special_tokens_mask" not in state:
        state["special_tokens_mask"] = [sequence is None for sequence in state["sequence_ids"]]
    return state


def _source_state(row: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    state = {**common, **json.loads(row.pop("own", None) or "{}")}
    text, spans = row["text"], row["part_spans"]
    row["settings"] = json.loads(row["settings"])
    named = zip(row["sources"], row["source_spans"], strict=True)
    return {
        "parts": [{"name": text[start:end], "start": start, "end": end} for start, end in spans],
        **state,
        **row,
        "table": np.asarray(row["part_scores"], np.float32).reshape(len(spans), -1),
        "sources": [{"name": name, "start": start, "end": end} for name, (start, end) in named],
        "diagnostics": json.loads(row["diagnostics"]),
    }
