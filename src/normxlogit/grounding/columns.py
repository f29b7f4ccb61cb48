"""The columns of citations in Parquet files, data sets and corpora, beside those of their attribution."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..results.storage.schema import FloatArray, Index, Number, plain
from ..results.units.spans import MessageSpan

if TYPE_CHECKING:
    from .result import Citations

Strings = tuple[str, ...]


class ContradictionCell(NamedTuple):
    """What the sources rather say, by how many nats, which source is contradicted, if any, and by which target."""

    rather: str
    gain: Number
    source: str
    target: Index


COLUMNS: Mapping[str, Any] = {
    "question": str,
    "message_spans": tuple[MessageSpan, ...],
    "sentence_shares": FloatArray,
    "sentence_sources": tuple[Strings, ...],
    "sentence_verdicts": Strings,
    "sentence_nats": tuple[Number, ...],
    "sentence_losses": FloatArray,
    "sentence_contradictions": tuple[ContradictionCell, ...],
    "source_losses": FloatArray,
    "sentence_messages": tuple[Strings, ...],
    "message_shares": FloatArray,
    "message_losses": FloatArray,
}
"""The columns with their types."""

CONVERSATION = ("message_spans", "sentence_messages", "message_shares", "message_losses")
"""The columns of conversations alone."""

TESTED = ("sentence_nats", "sentence_losses", "sentence_contradictions", "source_losses", "message_losses")
"""The columns of answers that were tested."""


def citation_row(result: "Citations") -> dict[str, Any]:
    """Return the columns of citations: each sentence's scores and shares of the sources, and measured losses."""
    messages, tested, support = result.messages, result.tested, result.support
    row: dict[str, Any] = {
        "shares": result.evidence.whole().shares,
        "question": result.question,
        "sentence_shares": [sentence.share for sentence in support],
        "sentence_sources": [[result.names[source] for source in sentence.sources] for sentence in support],
        "sentence_verdicts": [sentence.judgement for sentence in support],
    }
    if messages:
        shares = np.zeros(len(messages), np.float32)
        np.add.at(shares, result.message_indices, np.nan_to_num(result.shares))
        row |= {"message_spans": plain(messages), "message_shares": shares}
        row["sentence_messages"] = [list(dict.fromkeys(sentence.messages)) for sentence in support]  # each once
    if tested is None:
        return row
    row |= {
        "sentence_nats": tested.original.values,
        "sentence_losses": _null_for_nan(result.sentence_losses),
        "sentence_contradictions": [_contradiction(result, k) for k in range(len(support))],
        "source_losses": _null_for_nan(result.source_losses.ravel()),
    }
    if messages:
        of_messages = np.full(len(messages), np.nan, np.float32)
        message_of = dict(zip(result.sources, result.message_indices, strict=True))
        for removal in tested.single:
            most = np.subtract(tested.original.values, removal.values).max()
            np.fmax.at(of_messages, [message_of[unit] for unit in removal.tokens], most)
        row["message_losses"] = _null_for_nan(of_messages)
    return row


def _contradiction(result: "Citations", k: int) -> dict[str, Any] | None:
    """Return the cell of a sentence that contradicts its sources, with the first source that it cites; else None."""
    sentence, rather = result.support[k], result.readings[k].rather if result.readings else None
    if sentence.judgement != "contradicts":
        return None
    source = result.names[sentence.sources[0]] if sentence.sources else ""
    gain = 0.0 if rather is None else max(rather.gain, 0.0)
    return ContradictionCell(sentence.rather, gain, source, result.concluding[k])._asdict()


def _null_for_nan(losses: FloatArray) -> list[float | None]:
    """Return losses with null instead of NaN, which queries would take for a large number."""
    return [None if np.isnan(nats) else nats for nats in losses.tolist()]
