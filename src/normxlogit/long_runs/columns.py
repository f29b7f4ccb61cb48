"""The columns of corpora: those of results, and for each kind of input without a text those of its places."""

from collections.abc import Mapping
from typing import Any

from ..extending import registered
from ..results.base import Record, record_type
from ..results.storage.columns import (
    COMMON,
    DERIVED,
    JSON_FIELDS,
    PREDICTION,
    RESULTS,
    TOKENS,
    metadata_of,
    result_row,
    states_of_rows,
)
from ..results.storage.schema import plain
from ..results.units.media import RowKind
from ..results.units.units import APART

ROW_KINDS: Mapping[str, RowKind] = registered("row_kinds")

CORPUS: Mapping[str, Mapping[str, Any]] = {
    **RESULTS,
    **{name: {**COMMON, **TOKENS, **kind.columns} for name, kind in ROW_KINDS.items()},
}
"""The columns of a corpus by the kind of its results."""


def corpus_row(result: Record) -> dict[str, Any]:
    """Return a result as a row of a corpus, without `row` and `id`."""
    a, row = result.scored, result_row(result)
    for kind in ROW_KINDS.values():
        if kind.unit_kind in a.units.kind:
            row |= kind.cells(next(iter(a.media), None), len(a.units))
    return row


def states_of_shard(table: Any) -> list[dict[str, Any]]:
    """Return the states of the results in a shard of a corpus, as `from_dict` reads them."""
    common = metadata_of(table.schema)
    kind = common["kind"]
    result_kind = "text" if kind in ROW_KINDS else kind
    derived = {*DERIVED, *record_type(kind).derived}
    return states_of_rows(table, CORPUS[kind], derived, lambda row: (result_kind, _derived_fields(row, common)))


def _derived_fields(row: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an attribution that are derived from columns and from the values all rows share."""
    kinds, sequences, spans = row.get("unit_kinds"), row["sequence_ids"], row.get("target_spans")
    special = [of is None for of in sequences] if kinds is None else [kind in APART for kind in kinds]
    of_rows = ROW_KINDS.get(common["kind"])
    if kinds is None:
        kinds = ["token" if of is None or of_rows is None else of_rows.unit_kind for of in sequences]
    shared_fields = ("version", "signed", "layers", "merge", "quantity", *JSON_FIELDS)
    state = {name: common[name] for name in shared_fields if name in common}
    shared = common.get("target") or {"kind": "part", "contrast": None, "contrast_id": None}
    nothing = [None] * len(row["target"])
    state |= {
        "units": {"kind": kinds, "special": special},
        "targets": [
            {**shared, "name": name, "id": id_, "position": row.get("position"), "span": span}
            for name, id_, span in zip(row["target"], row.get("target_ids") or nothing, spans or nothing, strict=True)
        ],
    }
    if "target_spans" not in row and row["prediction"] is not None:
        state["predictions"] = [{name: row[column] for column, name in PREDICTION.items()}]
    if of_rows is not None and (medium := of_rows.medium(row)) is not None:
        state["media"] = [plain(medium)]
    return state
