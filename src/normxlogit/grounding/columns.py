"""The columns of citations in Parquet files and corpora."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..results.storage.schema import Fields, FloatArray, Number, Strings, plain
from ..results.units.spans import MessageSpan

if TYPE_CHECKING:
    from .result import Citations

COLUMNS: Mapping[str, Any] = {
    "question": str,
    "message_spans": tuple[MessageSpan, ...],
    "summary": str,
    "sentence_shares": FloatArray,
    "sentence_sources": tuple[Strings, ...],
    "sentence_verdicts": Strings,
    "sentence_missing": tuple[Strings, ...],
    "sentence_gains": tuple[Number, ...],
    "sentence_losses": FloatArray,
    "source_losses": FloatArray,
    "sentence_messages": tuple[Strings, ...],
    "message_shares": FloatArray,
}
"""The columns with their types."""

CONVERSATION = ("message_spans", "sentence_messages", "message_shares")
"""The columns of conversations alone."""

TESTED = ("sentence_losses", "source_losses")
"""The columns of answers that were tested."""


def citation_row(result: "Citations") -> Fields:
    """Return the columns of citations: each sentence's verdict, scores and shares of the sources, and measured losses.

    Args:
        result: An answer with citations.
    """
    support = result.support
    row: Fields = {
        "shares": result.evidence.whole().shares,  # (U,), of what ranks the sources: replaces the attribution's column
        "question": result.question,
        "summary": result.summary,
        "sentence_shares": [sentence.share for sentence in support],
        "sentence_sources": [[result.names[source] for source in sentence.sources] for sentence in support],
        "sentence_verdicts": [sentence.judgement for sentence in support],
        "sentence_missing": [list(sentence.missing) for sentence in support],
        "sentence_gains": _null_for_nan(np.array([sentence.gain for sentence in support], np.float32)),
    }
    if result.messages:
        row |= _message_columns(result)
    if result.tested is not None:
        row["sentence_losses"] = _null_for_nan(result.sentence_losses)
        row["source_losses"] = _null_for_nan(result.source_losses.ravel())  # those of each sentence, one after another
    return row


def _message_columns(result: "Citations") -> Fields:
    """Return the columns of conversations: the messages, and which of them the answer rests on."""
    shares = np.zeros(len(result.messages), np.float32)  # (M,)
    # No index is -1 here: `Citations.validate` refuses a source that is in no message.
    np.add.at(shares, result.message_indices, np.nan_to_num(result.shares))
    messages = [list(dict.fromkeys(sentence.messages)) for sentence in result.support]  # each once
    return {"message_spans": plain(result.messages), "message_shares": shares, "sentence_messages": messages}


def _null_for_nan(values: FloatArray) -> list[float | None]:
    """Return numbers with null instead of NaN, which queries would take for a large number."""
    return [None if np.isnan(value) else value for value in values.tolist()]
