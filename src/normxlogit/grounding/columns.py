"""The columns of citations in Parquet files, data sets and corpora, beside those of their attribution."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..results.storage.files import json_text
from ..results.storage.schema import FloatArray, Index, Number, plain
from .verdicts import Check, Reading

if TYPE_CHECKING:
    from .result import Citations

Strings = tuple[str, ...]


class ContradictionCell(NamedTuple):
    """What the sources rather say, by how many nats, and the source and document contradicted; "" if none is cited.

    `target` is the sentence's index among the targets, which are also those of a reasoning.
    """

    rather: str
    gain: Number
    source: str
    document: str
    target: Index


CITED: Mapping[str, Any] = {
    "question": str,
    "weighted_scores": FloatArray,
    "sentence_shares": FloatArray,
    "sentence_sources": tuple[Strings, ...],
    "sentence_verdicts": Strings,
}
CONVERSATION: Mapping[str, Any] = {
    "sentence_messages": tuple[Strings, ...],
    "message_names": Strings,
    "message_kinds": Strings,
    "message_tools": Strings,
    "message_spans": tuple[tuple[Index, Index], ...],
    "message_shares": FloatArray,
    "message_losses": FloatArray,
}
TESTED: Mapping[str, Any] = {
    "verified": str,
    "sentence_nats": tuple[Number, ...],
    "sentence_losses": FloatArray,
    "sentence_contradictions": tuple[ContradictionCell, ...],
    "source_losses": FloatArray,
    "readings": tuple[Reading, ...],
    "checks": tuple[Check, ...],
    "message_losses": FloatArray,
}

MESSAGE = {"message_names": "name", "message_kinds": "role", "message_tools": "tool"}
"""Fields of messages by their columns."""

FIELDS = ("question", "weighted_scores", *MESSAGE, "message_spans", "verified", "readings", "checks")
"""The columns that citations are made of again; the others are computed from them."""

COLUMNS = {**CITED, **CONVERSATION, **TESTED}
STORED = {name: COLUMNS[name] for name in FIELDS}
DERIVED = {name: type_ for name, type_ in COLUMNS.items() if name not in STORED}


def citation_row(result: "Citations") -> dict[str, Any]:
    """Return the columns of citations: each sentence's scores and shares of the sources, and measured losses."""
    names, messages, tested = result.names, result.messages, result.tested
    support = result.support
    row: dict[str, Any] = {
        "shares": result.evidence.whole().shares,
        "question": result.question,
        "weighted_scores": None if result.weighted_scores is None else result.weighted_scores.ravel().tolist(),
        "sentence_shares": [sentence.share for sentence in support],
        "sentence_sources": [[names[source] for source in sources] for sources in result.cited],
        "sentence_verdicts": [sentence.judgement for sentence in support],
    }
    if messages:
        shares = np.zeros(len(messages), np.float32)
        np.add.at(shares, result.message_indices, np.nan_to_num(result.shares))
        row |= {column: [getattr(message, name) for message in messages] for column, name in MESSAGE.items()}
        row |= {"message_spans": [(message.start, message.end) for message in messages], "message_shares": shares}
        # Each message once.
        row["sentence_messages"] = [list(dict.fromkeys(result.documents[i] for i in cited)) for cited in result.cited]
    if result.verified is not None:
        row |= {"verified": json_text(plain(result.verified))}
        row |= {"readings": plain(result.readings), "checks": plain(result.checks)}
    if tested is not None:
        losses = result.source_losses
        row |= {
            "sentence_nats": tested.original.values,
            "sentence_losses": _null_for_nan(result.sentence_losses),
            "sentence_contradictions": [_contradiction(result, k) for k in range(len(support))],
            "source_losses": _spread_to_units(result, losses),
        }
        if messages:
            of_messages = np.full(len(messages), np.nan, np.float32)
            message_of = dict(zip(result.sources, result.message_indices, strict=True))
            for removal in tested.single:
                most = np.subtract(tested.original.values, removal.values).max()
                np.fmax.at(of_messages, [message_of[unit] for unit in removal.tokens], most)
            row["message_losses"] = _null_for_nan(of_messages)
    return row


def _contradiction(result: "Citations", sentence: int) -> dict[str, Any] | None:
    """Return the cell of a sentence that contradicts its sources, with the first source that it cites; else None."""
    support = result.support[sentence]
    if support.judgement != "contradicts":
        return None
    source = next(iter(support.sources), None)
    rather = result.readings[sentence].rather
    return ContradictionCell(
        support.rather,
        0.0 if rather is None else max(rather.gain, 0.0),
        "" if source is None else result.names[source],
        "" if source is None else result.documents[source],
        result.concluding[sentence],
    )._asdict()


def _spread_to_units(result: "Citations", values: FloatArray) -> list[float | None]:
    """Return values of sources, (K, S), in the order of all units' scores, with null for the other units."""
    table = np.full(result.conclusion.scores.shape, np.nan, np.float32)  # (K, U)
    table[:, result.sources] = values
    return _null_for_nan(table.ravel())


def _null_for_nan(losses: FloatArray) -> list[float | None]:
    """Return losses with null instead of NaN, which queries would take for a large number."""
    return [None if np.isnan(nats) else nats for nats in losses.tolist()]


def citation_state(row: Mapping[str, Any], attribution: dict[str, Any]) -> dict[str, Any]:
    """Return the state of citations from a row of a file and the state of their attribution."""
    weighted, verified = row.get("weighted_scores"), row.get("verified")
    messages = zip(*(row.get(column) or () for column in (*MESSAGE, "message_spans")), strict=True)
    return {
        "kind": "citations",
        "format_version": attribution["format_version"],
        "question": row["question"],
        "attribution": {**attribution, "verified": None if verified is None else json.loads(verified)},
        "weighted_scores": None if weighted is None else np.reshape(np.array(weighted, np.float32), row["shape"]),
        "readings": row.get("readings") or (),
        "checks": row.get("checks") or (),
        "messages": [{"name": n, "role": r, "tool": t, "start": i, "end": j} for n, r, t, (i, j) in messages],
    }
