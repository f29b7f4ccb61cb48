"""Sentences that people labelled as supported by documents or not, and the support that a model finds for them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...evaluation.datasets import parsed_rows
from ...evaluation.runs import OnProgress, with_progress
from ...model.task_model import TaskModel
from ...results.storage.schema import Strings
from ..calibration import Array
from ..citations.ranked import rank_sentences
from ..documents.documents import read_documents
from ..facts import ComparedText
from ..ranking import missing_names


class Claim(NamedTuple):
    """A sentence about documents, with its label."""

    documents: Strings  # their texts
    sentence: str
    is_supported: bool
    question: str = ""


def load_claims(path: str | Path) -> list[Claim]:
    """Read labelled sentences from JSON lines.

    Args:
        path: A file whose lines have "documents" (a text, several, or texts by name), "sentence", "supported" (true
            or false), and maybe the "question".

    Raises:
        DataError: If a line holds something else, or there is none.
    """
    return parsed_rows(path, _claim, "not a labelled sentence")


def _claim(row: Mapping[str, Any]) -> Claim:
    label, sentence = row["supported"], row["sentence"]
    if not isinstance(label, bool):
        raise ValueError('"supported" is true or false')
    if not isinstance(sentence, str) or not sentence.strip():
        raise ValueError('"sentence" is a text')
    documents, _ = read_documents(row["documents"])  # of pictures nothing is read here
    return Claim(tuple(documents.values()), sentence, label, str(row.get("question", "")))


def supports_of(model: TaskModel, claims: Sequence[Claim], on_progress: OnProgress | None = None) -> Array:
    """Return the support of each labelled sentence, (n,)."""
    supports = list[float]()
    for _, claim in with_progress("labelled sentences", claims, on_progress):
        # Beside the documents, what the question says is not missing, as in `facts_of`.
        missing = missing_names(claim.sentence, ComparedText("\n".join([*claim.documents, claim.question])))
        (ranked,) = rank_sentences(model, [claim.sentence], claim.documents, [missing])
        supports.append(ranked.support)
    return np.array(supports)
