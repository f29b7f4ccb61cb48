"""Results as rows of a table: the schema of a corpus' Parquet files, and the way back to results."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .fields import FORMAT_VERSION, plain
from .files import json_text

if TYPE_CHECKING:
    from .sources import Sources

__all__ = [
    "METADATA",
    "SCHEMA_VERSION",
    "SOURCE_KINDS",
    "column_types",
    "results_of",
    "source_row",
    "source_table",
    "source_types",
]

SCHEMA_VERSION = 1
"""Version of the schema; raised when a reader of the old one would misread the new."""

SOURCE_KINDS = ("sources", "citations")
"""The results that stand in a table of sources."""

OWN = ("kind", "settings", "signed", "unit", "version", "parts", "question", "verified")
"""Fields without a column: the same in all rows of a corpus, or following from its columns."""

METADATA = b"normxlogit"
"""Key under which a file's metadata says what all its rows have in common, as JSON."""


def column_types(arrow: Any, *, texts: bool, pairs: bool, words: bool) -> dict[str, Any]:
    """Return the columns of a corpus' results with their Arrow types, in their order.

    Args:
        arrow: The module pyarrow.
        texts: Whether the texts are kept.
        pairs: Whether they are pairs.
        words: Whether tokens are merged to words.
    """
    types = {
        "row": arrow.int64(),
        "id": arrow.string(),
        "text": arrow.string(),
        "text_pair": arrow.string(),
        "tokens": arrow.list_(arrow.string()),
        "token_ids": arrow.list_(arrow.int32()),
        "offsets": arrow.list_(arrow.list_(arrow.int32(), 2)),
        "sequence_ids": arrow.list_(arrow.int8()),
        "scores": arrow.list_(arrow.float32()),
        "shape": arrow.list_(arrow.int32()),
        "words": arrow.list_(arrow.string()),
        "word_scores": arrow.list_(arrow.float32()),
        "prediction": arrow.string(),
        "prediction_id": arrow.int32(),
        "value": arrow.float32(),
        "probability": arrow.float32(),
        "target": arrow.list_(arrow.string()),
        "target_ids": arrow.list_(arrow.int32()),
        "position": arrow.int32(),
        "bias": arrow.list_(arrow.float32()),
        "sink": arrow.list_(arrow.float32()),
        "sinks": arrow.list_(arrow.int32()),
        "diagnostics": arrow.string(),
        "notes": arrow.list_(arrow.string()),
        "method": arrow.string(),
        "model": arrow.string(),
    }
    absent = {
        "text": not texts,
        "text_pair": not (texts and pairs),
        "words": not words,
        "word_scores": not words,
    }
    return {name: kind for name, kind in types.items() if not absent.get(name, False)}


def source_types(arrow: Any, *, texts: bool, names: bool) -> dict[str, Any]:
    """Return the columns of completions with their sources, with their Arrow types, in their order.

    Args:
        arrow: The module pyarrow.
        texts: Whether the prompts are kept, whole and source by source.
        names: Whether the sources have names besides their texts.
    """
    spans = arrow.list_(arrow.list_(arrow.int32(), 2))
    types = {
        "row": arrow.int64(),
        "id": arrow.string(),
        "text": arrow.string(),
        "completion": arrow.string(),
        "sources": arrow.list_(arrow.string()),
        "source_spans": spans,
        "source_texts": arrow.list_(arrow.string()),
        "scores": arrow.list_(arrow.float32()),
        "shares": arrow.list_(arrow.float32()),
        "part_spans": spans,
        "part_scores": arrow.list_(arrow.float32()),
        "rest": arrow.list_(arrow.float32()),
        "written": arrow.list_(arrow.float32()),
        "bias": arrow.list_(arrow.float32()),
        "sink": arrow.list_(arrow.float32()),
        "sinks": arrow.list_(arrow.int32()),
        "diagnostics": arrow.string(),
        "notes": arrow.list_(arrow.string()),
        "method": arrow.string(),
        "model": arrow.string(),
    }
    absent = {"text": not texts, "source_texts": not texts, "sources": not (texts or names)}
    return {name: kind for name, kind in types.items() if not absent.get(name, False)}


def results_of(table: Any) -> list[dict[str, Any]]:
    """Return the states of the results in a table, as `Attribution.from_dict` and `Sources.from_dict` read them.

    Args:
        table: An Arrow table of a corpus' results.

    Raises:
        DataError: If it is of another schema, or of sources without their texts.
    """
    common: dict[str, Any] = json.loads(table.schema.metadata[METADATA])
    if common.get("schema_version") != SCHEMA_VERSION:
        raise DataError(
            f"a corpus of schema version {common.get('schema_version')}; this library reads {SCHEMA_VERSION}"
        )
    if common.get("kind") not in SOURCE_KINDS:
        return [_state(row, common) for row in table.to_pylist()]
    if "text" not in table.column_names:
        raise DataError("these sources were written without their texts; attribute --keep-text keeps them")
    return [_sources(row, common) for row in table.to_pylist()]


def source_row(result: "Sources") -> dict[str, Any]:
    """Return a completion with its sources as a row of the columns of `source_types`, the two that number it left out.

    Args:
        result: The sources.
    """
    return {
        "text": result.text,
        "completion": result.completion,
        "sources": list(result.names),
        "source_spans": [list(span) for span in result.spans],
        "source_texts": [result.text[start:end] for start, end in result.spans],
        "scores": result.scores,
        "shares": result.shares,
        "part_spans": [[part.start, part.end] for part in result.parts],
        "part_scores": result.table.ravel(),
        "rest": result.rest,
        "written": result.written,
        "bias": result.bias,
        "sink": result.sink,
        "sinks": list(result.sinks),
        "diagnostics": json_text(plain(dict(result.diagnostics))),
        "notes": list(result.notes),
        "method": result.method,
        "model": result.model,
    }


def source_table(arrow: Any, results: Sequence["Sources"]) -> Any:
    """Return sources as a table of a corpus' layout.

    What a corpus' rows have in common, and these may not, stands as JSON in a column of its own.

    Args:
        arrow: The module pyarrow.
        results: The sources, or citations, at least one.
    """
    types = source_types(arrow, texts=True, names=True) | {"own": arrow.string()}
    rows = []
    for place, result in enumerate(results):
        state = result.to_dict()
        own = {name: state[name] for name in OWN if name in state}
        rows.append({"row": place, "id": str(place), **source_row(result), "own": json_text(own)})
    schema = arrow.schema(
        list(types.items()),
        metadata={METADATA: json.dumps({"schema_version": SCHEMA_VERSION, "kind": results[0].kind})},
    )
    return arrow.table({name: arrow.array([row[name] for row in rows], types[name]) for name in types}, schema=schema)


def _sources(row: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    text, common = row["text"], {**common, **json.loads(row.get("own") or "{}")}
    scores = np.asarray(row["part_scores"], np.float32).reshape(len(row["part_spans"]), -1)
    named = zip(row["sources"], row["source_spans"], strict=True)
    return {
        "kind": common["kind"],
        "format_version": FORMAT_VERSION,
        "table": plain(scores),
        "sources": [{"name": name, "start": start, "end": end} for name, (start, end) in named],
        "diagnostics": json.loads(row["diagnostics"]),
        **{name: row[name] for name in ("scores", "rest", "written", "bias", "text", "completion")},
        **{name: row[name] for name in ("sink", "sinks") if name in row},
        **{name: row[name] for name in ("method", "model", "notes")},
        "parts": [{"name": text[start:end], "start": start, "end": end} for start, end in row["part_spans"]],
        **{name: common[name] for name in OWN if name in common},
    }


def _state(row: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    shape = row["shape"]
    # A shard of an older version has no such columns, and its bias among the diagnostics.
    besides = {
        name: None if row[name] is None else plain(np.asarray(row[name], np.float32).reshape(shape[:-1]))
        for name in ("bias", "sink")
        if name in row
    }
    said = {"label": row["prediction"], "id": row["prediction_id"], "value": row["value"]}
    return {
        "kind": "text",
        "format_version": FORMAT_VERSION,
        "scores": plain(np.asarray(row["scores"], np.float32).reshape(shape)),
        "tokens": row["tokens"],
        "token_ids": row["token_ids"],
        "offsets": row["offsets"],
        "word_ids": None,
        "sequence_ids": row["sequence_ids"],
        "special_tokens_mask": [sequence is None for sequence in row["sequence_ids"]],
        "text": row.get("text"),
        "text_pair": row.get("text_pair"),
        "prediction": plain(said | {"probability": row["probability"]}),
        "target": {
            "kind": common["target_kind"],
            "labels": row["target"],
            "ids": row["target_ids"],
            "contrast": common["contrast"],
            "contrast_id": common["contrast_id"],
            "position": row["position"],
        },
        "layers": common["layers"],
        "token_predictions": None,
        "method": row["method"],
        "settings": common["settings"],
        "model": row["model"],
        "signed": common["signed"],
        "notes": row["notes"],
        "version": common["version"],
        "diagnostics": json.loads(row.get("diagnostics") or "{}"),
        "merge": common["merge"],
        "sinks": row.get("sinks") or (),
        **besides,
    }
