"""The columns of results in Parquet files, data sets and corpora: declared, written and read here.

There is one layout for all results. A file that `save` writes has a few columns more than a corpus, the last of which
has the other fields as JSON; the file's metadata have as JSON what all rows share. In a corpus the names of the columns
that `save` adds are free: its user may keep input columns of these names.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError
from ..attribution import Attribution, prediction_of
from ..citations import Citations
from ..units.media import grid_medium, sound_of_times
from ..units.units import APART
from ..verification import CITATION_TEST
from .files import json_text
from .schema import FloatArray, plain
from .versions import FORMAT_VERSION, checked_version

if TYPE_CHECKING:
    from ..base import Record


METADATA = b"normxlogit"
"""Key under which a file's metadata say what all its rows share, as JSON."""

UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What reading a file that is damaged, or something else, may raise."""

Kind = str | tuple["Kind"] | tuple["Kind", int] | Mapping[str, "Kind"]
"""An Arrow type by its name, a list of one, a list of a fixed length, or a struct of named ones."""

STRINGS: Kind = ("string",)
INDICES: Kind = ("int32",)
FLOATS: Kind = ("float32",)
SPANS: Kind = (("int32", 2),)

SECONDS: Kind = (("float64", 2),)

SWAP: Kind = {
    "sentence": "int32",
    "value": "string",
    "start": "int32",
    "end": "int32",
    "other": "string",
    "source": "string",
    "margin": "float64",
}
"""A `Swap`."""

CONTRADICTION: Kind = {
    "value": "string",
    "other": "string",
    "source": "string",
    "document": "string",
    "margin": "float64",
}
"""What a sentence contradicts: its value, the likelier one, and the source that has it with its document or message."""

COLUMNS: Mapping[str, Kind] = {
    "row": "int64",
    "id": "string",
    "text": "string",
    "text_pair": "string",
    "question": "string",
    "completion": "string",
    "units": STRINGS,
    "unit_kinds": STRINGS,
    "unit_names": STRINGS,
    "unit_ids": INDICES,
    "spans": SPANS,
    "sequence_ids": ("int8",),
    "scores": FLOATS,
    "shape": INDICES,
    "shares": FLOATS,
    "words": STRINGS,
    "word_scores": FLOATS,
    "prediction": "string",
    "prediction_id": "int32",
    "value": "float64",
    "probability": "float64",
    "target": STRINGS,
    "target_ids": INDICES,
    "target_spans": SPANS,
    "position": "int32",
    "sentence_shares": FLOATS,
    "sentence_sources": (STRINGS,),
    "sentence_verdicts": STRINGS,
    "sentence_nats": ("float64",),
    "sentence_losses": FLOATS,
    "sentence_contradictions": (CONTRADICTION,),
    "source_losses": FLOATS,
    "value_scores": FLOATS,
    "swaps": (SWAP,),
    "sentence_messages": (STRINGS,),
    "message_names": STRINGS,
    "message_kinds": STRINGS,
    "message_tools": STRINGS,
    "message_spans": SPANS,
    "message_shares": FLOATS,
    "message_losses": FLOATS,
    "bias": FLOATS,
    "sink": FLOATS,
    "sinks": INDICES,
    "rows": "int32",
    "columns": "int32",
    "first": "int32",
    "times": SECONDS,
    "diagnostics": "string",
    "notes": STRINGS,
    "method": "string",
    "model": "string",
    "settings": "string",
}
"""The columns of results, in their order; a corpus leaves out those that its kind of result does not have."""

SIGNAL = ("rows", "columns", "first", "times")
ANSWER = ("completion", "unit_kinds", "unit_names", "shares", "target_spans", "settings")
CONVERSATION = (
    "sentence_messages",
    "message_names",
    "message_kinds",
    "message_tools",
    "message_spans",
    "message_shares",
    "message_losses",
)
TESTED = ("sentence_nats", "sentence_losses", "sentence_contradictions", "source_losses", "swaps", "message_losses")
CITED = ("question", "value_scores", "sentence_shares", "sentence_sources", "sentence_verdicts", *CONVERSATION, *TESTED)
TOKENS = ("unit_ids", "words", "word_scores", "prediction", "prediction_id", "value", "probability", "target_ids",
          "position")  # fmt: skip

ABSENT: Mapping[str, tuple[str, ...]] = {
    "text": (*SIGNAL, *ANSWER, *CITED),
    "image": (*ANSWER, *CITED),
    "audio": (*ANSWER, *CITED),
    "sources": (*SIGNAL, *CITED, *TOKENS, "text_pair"),
    "citations": (*SIGNAL, *TOKENS, "text_pair"),
}
"""The columns that a corpus of each kind does not have."""

CORPUS: Mapping[str, Mapping[str, Kind]] = {
    kind: {name: type_ for name, type_ in COLUMNS.items() if name not in absent} for kind, absent in ABSENT.items()
}
"""The columns of a corpus by the kind of its results."""

DERIVED = (
    "shares",
    "sentence_shares",
    "sentence_sources",
    "sentence_verdicts",
    "sentence_contradictions",
    "sentence_messages",
    "message_shares",
    "message_losses",
    "words",
    "word_scores",
)
"""Columns that follow from the others."""

SAVED: Mapping[str, Kind] = {
    **{name: kind for name, kind in COLUMNS.items() if name not in ("words", "word_scores", *SIGNAL)},
    "kind": "string",
    "rest": "string",
}
"""The columns of a file that `save` writes."""

PREDICTION = {"prediction": "label", "prediction_id": "id", "value": "value", "probability": "probability"}
"""Columns with the fields of a prediction."""

FIELDS = ("text", "text_pair", "completion", "method", "model", "scores", "bias", "sink", "sinks", "notes")
"""Fields that are columns themselves."""

JSON_FIELDS = ("settings", "diagnostics")
"""Fields that are columns of JSON."""


def arrow_types(columns: Mapping[str, Kind], absent: Iterable[str] = ()) -> dict[str, Any]:
    """Return the Arrow types of columns."""
    return {name: _arrow_type(kind) for name, kind in columns.items() if name not in absent}


def _arrow_type(kind: Kind) -> Any:
    import pyarrow

    if isinstance(kind, str):
        return pyarrow.type_for_alias(kind)
    if isinstance(kind, Mapping):
        return pyarrow.struct([(name, _arrow_type(part)) for name, part in kind.items()])
    return pyarrow.list_(_arrow_type(kind[0]), *kind[1:])


# --- written ----------------------------------------------------------------------------------------------------------


def result_table(results: "Sequence[Record]", *, single: bool = False) -> Any:
    """Return results as an Arrow table, one row a result, which says whether it is a single result."""
    import pyarrow

    types = arrow_types(SAVED)
    common = {"format_version": FORMAT_VERSION, "single": single}
    rows = [{"row": index, "id": str(index), **_saved_row(result)} for index, result in enumerate(results)]
    schema = pyarrow.schema(list(types.items()), metadata={METADATA: json.dumps(common)})
    try:
        columns = {name: pyarrow.array([row.get(name) for row in rows], kind) for name, kind in types.items()}
    except (OverflowError, ValueError) as error:  # half a surrogate pair, an index of more than 32 bits
        raise DataError(f"cannot be written as Parquet: {error}") from None
    return pyarrow.table(columns, schema=schema)


def result_row(result: "Record") -> dict[str, Any]:
    """Return a result as a row of a corpus, without `row` and `id`."""
    a = attribution_of(result)
    ids = [target.id for target in a.targets]
    spans = [target.span for target in a.targets]
    positions = {target.position for target in a.targets}
    row: dict[str, Any] = {name: getattr(a, name) for name in FIELDS}
    for name in ("scores", "bias", "sink"):
        row[name] = None if row[name] is None else row[name].ravel()
    row |= {name: json_text(plain(getattr(a, name))) for name in JSON_FIELDS}
    row |= {
        "units": a.units.text,
        "unit_kinds": a.units.kind,
        "unit_names": a.units.name or None,
        "unit_ids": a.units.ids,
        "spans": a.units.spans,
        "sequence_ids": a.units.sequence,
        "shape": a.scores.shape,
        "target": [target.name for target in a.targets],
        "target_ids": None if None in ids else ids,
        "target_spans": None if None in spans else spans,
        "position": positions.pop() if len(positions) == 1 else None,
    }
    if (prediction := prediction_of(a)) is not None:
        row |= {name: getattr(prediction, part) for name, part in PREDICTION.items()}
    if a.targets[0].kind == "part":
        row["shares"] = (result.evidence if isinstance(result, Citations) else a).whole().shares
    if isinstance(result, Citations):
        values = result.value_scores
        names, support = result.names, () if a.bias is None else result.support
        row |= {
            "question": result.question,
            "value_scores": None if values is None else _of_units(result, values),
            "sentence_shares": [sentence.share for sentence in support],
            "sentence_sources": [[names[source] for source in sources] for sources in result.cited],
            "sentence_verdicts": [sentence.judgement for sentence in support],
            **_message_columns(result),
            **_tested_columns(result),
        }
    return row | _signal_columns(a)


def _tested_columns(result: Citations) -> dict[str, Any]:
    """Return what an answer loses without its sources, and what it contradicts, where that was measured."""
    if (tested := result.verified) is None:
        return {}
    documents, losses = dict(zip(result.names, result.documents, strict=True)), result.source_losses
    contradictions = [tested.contradiction(k) for k in range(len(losses))]
    of_messages = np.full(len(result.messages), np.nan, np.float32)
    if result.messages:
        np.fmax.at(of_messages, result.message_indices, np.fmax.reduce(losses))
    return {
        "sentence_nats": tested.original.values,
        "sentence_losses": _measured(result.sentence_losses),
        "sentence_contradictions": [
            swap and {**swap._asdict(), "document": documents[swap.source]} for swap in contradictions
        ],
        "source_losses": _of_units(result, losses),
        "swaps": [swap._asdict() for swap in tested.swaps],
        "message_losses": _measured(of_messages) if result.messages else None,
    }


def _of_units(result: Citations, values: FloatArray) -> list[float | None]:
    """Return what each sentence has of each source, (K, S), in the order of the scores of all units."""
    table = np.full(result.attribution.scores.shape, np.nan, np.float32)  # (K, U)
    table[:, result.sources] = values
    return _measured(table.ravel())


def _measured(losses: FloatArray) -> list[float | None]:
    """Return losses with null for those that were not measured, which queries would take for large numbers."""
    return [None if np.isnan(nats) else nats for nats in losses.tolist()]


def _message_columns(result: Citations) -> dict[str, Any]:
    """Return the messages that contain the sources of an answer, and those that each of its sentences cites."""
    messages = result.messages
    if not messages:
        return {}
    shares = np.zeros(len(messages), np.float32)
    np.add.at(shares, result.message_indices, np.nan_to_num(result.shares))
    name_of_message = result.documents  # by source
    return {
        "sentence_messages": [
            list(dict.fromkeys(name_of_message[source] for source in cited))
            for cited in result.cited  # each once
        ],
        "message_names": [message.name for message in messages],
        "message_kinds": [message.role for message in messages],
        "message_tools": [message.tool for message in messages],
        "message_spans": [(message.start, message.end) for message in messages],
        "message_shares": shares,
    }


def _signal_columns(a: Attribution) -> dict[str, Any]:
    """Return where the patches of a picture or the moments of a sound are that was classified."""
    if a.has_text:
        return {}
    medium = a.media[0] if a.media else None
    if medium is None:
        return {"rows": 0, "columns": 0, "first": 0, "times": []}
    if medium.kind == "picture":
        rows, columns = medium.shape
        return {"rows": rows, "columns": columns, "first": medium.first, "times": None}
    after = len(a.units) - medium.units.stop
    times = [(0.0, 0.0)] * medium.first + medium.places.tolist() + [(0.0, 0.0)] * after
    return {"rows": None, "columns": None, "first": None, "times": times}


def attribution_of(result: "Record") -> Attribution:
    """Return the attribution that a result is or holds."""
    if isinstance(result, Attribution):
        return result
    if isinstance(result, Citations):
        return result.attribution
    raise DataError(f"{result.described} has no columns")


def _saved_row(result: "Record") -> dict[str, Any]:
    a = attribution_of(result)
    state = {name: value for name, value in vars(a).items() if name not in (*FIELDS, *JSON_FIELDS)}
    rest = json_text(plain(state | {"units": {"special": a.units.special}}))
    return result_row(result) | {"kind": result.kind, "rest": rest}


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
    names = CORPUS[common["kind"]] if "shard" in common else SAVED
    table = table.select([name for name in table.column_names if name in names and name not in DERIVED])
    if "target_spans" in table.column_names and "shard" in common and "text" not in table.column_names:
        raise DataError("these sources were written without their texts; attribute --keep-text keeps them")
    states = []
    for index, row in enumerate(table.to_pylist()):
        try:
            states.append(_state(row, common))
        except UNREADABLE as error:  # noqa: PERF203  # names the row
            raise DataError(f"result {index}: not an attribution: {error!r}") from None
    return states


def _state(row: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a result from its row and what all rows share."""
    extras = json.loads(row.get("rest") or "{}")
    kind = row["kind"] if "shard" not in common else common["kind"]
    if kind not in (*CORPUS, Attribution.kind):
        raise ValueError(f"kind: {kind!r}")
    cited = kind == Citations.kind
    a = _attribution_state(row, common, extras)
    a["format_version"] = common.get("format_version", FORMAT_VERSION)
    if not cited:
        return a
    if "verified" not in extras:
        a["verified"] = _tested_state(row, a["units"])
    return {
        "kind": Citations.kind,
        "format_version": a["format_version"],
        "question": row.get("question") or "",
        "attribution": a,
        "value_scores": _of_sources(row, "value_scores", a["units"]["kind"]),
        "messages": _messages_state(row),
    }


def _tested_state(row: Mapping[str, Any], units: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what was measured of an answer; None where nothing was."""
    if (losses := _of_sources(row, "source_losses", units["kind"])) is None:
        return None
    nats = np.array(row["sentence_nats"], np.float64)  # (K,)
    sources = [unit for unit, kind in enumerate(units["kind"]) if kind not in APART]
    single = [([unit], nats - lost) for unit, lost in zip(sources, losses.T, strict=True) if not np.isnan(lost).all()]
    without_all = nats - np.array(row["sentence_losses"], np.float64)
    original, together, *removals = (
        {
            "units": [units["name"][unit] for unit in removed],
            "tokens": removed,
            "prediction": None,
            "value": float(values.sum()),
            "changed": False,
            "values": values.tolist(),
        }
        for removed, values in (([], nats), (sources, without_all), *single)
    )
    test = {"original": original, "together": together, "single": removals, "swaps": row["swaps"]}
    return {**CITATION_TEST, **test, "smallest": None, "control": None}


def _of_sources(row: Mapping[str, Any], name: str, kinds: Sequence[str]) -> FloatArray | None:
    """Return what each sentence has of each source, (K, S), from a column in the order of the scores of all units."""
    if row.get(name) is None:
        return None
    values = np.array(row[name], np.float32).reshape(row["shape"])  # (K, U)
    return values[:, [kind not in APART for kind in kinds]]


def _messages_state(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    names, spans = row.get("message_names") or [], row.get("message_spans") or []
    parts = zip(names, row.get("message_kinds") or [], row.get("message_tools") or [], spans, strict=True)
    return [{"role": k, "start": start, "end": end, "name": n, "tool": t} for n, k, t, (start, end) in parts]


def _attribution_state(row: dict[str, Any], common: Mapping[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    shared = {name: common[name] for name in ("version", "signed", "layers", "merge", "quantity") if name in common}
    state: dict[str, Any] = {**DEFAULTS, **shared, **extras, "kind": Attribution.kind}
    state |= {name: row.get(name) for name in FIELDS}
    state |= {name: json.loads(row[name]) if row.get(name) else common.get(name, {}) for name in JSON_FIELDS}
    state["sinks"], state["notes"] = state["sinks"] or (), state["notes"] or ()
    shape = row["shape"]
    for name in ("scores", "bias", "sink"):
        if state[name] is not None:
            axes = shape if name == "scores" else [2] if state["quantity"] == "cosine" else shape[:-1]
            state[name] = np.asarray(state[name], np.float32).reshape(axes)
    state["units"] = _units_state(row, extras)
    if "targets" not in extras:
        shared_target = common.get("target") or {"kind": "part", "contrast": None, "contrast_id": None}
        count = len(row["target"])
        names, spans = row["target"], row.get("target_spans") or [None] * count
        ids = row.get("target_ids") or [None] * count
        state["targets"] = [
            {**shared_target, "name": name, "id": id_, "position": row.get("position"), "span": span}
            for name, id_, span in zip(names, ids, spans, strict=True)
        ]
    if "predictions" not in extras and "target_spans" not in row and row["prediction"] is not None:
        state["predictions"] = [{part: row[column] for column, part in PREDICTION.items()}]
    if "media" not in extras:
        state["media"] = _media_state(row)
    return state


def _units_state(row: Mapping[str, Any], extras: Mapping[str, Any]) -> dict[str, Any]:
    sequences = row["sequence_ids"]
    kinds = row.get("unit_kinds")
    if kinds is None:
        part = "patch" if row.get("rows") is not None else "moment" if row.get("times") is not None else "token"
        kinds = [part if part == "token" or of is not None else "token" for of in sequences]
    special = [kind in APART for kind in kinds] if "unit_kinds" in row else [of is None for of in sequences]
    return {
        "kind": kinds,
        "text": row["units"],
        "special": extras.get("units", {}).get("special", special),
        "sequence": sequences,
        "spans": row.get("spans"),
        "ids": row.get("unit_ids") or (),
        "name": row.get("unit_names") or (),
    }


def _media_state(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the picture or the sound of a row of a corpus."""
    if row.get("rows"):
        return [plain(grid_medium(row["rows"], row["columns"], row["first"]))]
    if times := row.get("times"):
        medium = sound_of_times(times)
        return [] if medium is None else [plain(medium)]
    return []


DEFAULTS: Mapping[str, Any] = {
    field.name: field.default if field.default_factory is MISSING else field.default_factory()
    for field in fields(Attribution)
    if field.default is not MISSING or field.default_factory is not MISSING
}
"""What the fields of an attribution are where a row of a corpus says nothing of them."""
