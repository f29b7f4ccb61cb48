"""Questions with documents, to measure how well methods find what answers rest on."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import DataError, InputError
from ..inputs.documents import documents_by_name

__all__ = ["Asked", "load_questions", "qnli_questions", "read_questions"]

SENTENCES = 7
"""Sentences of a document made from QNLI: the one that answers and others."""


Line = TypeVar("Line")
"""What a line of a file is read as."""


@dataclass(frozen=True)
class Asked:
    """A question with its documents.

    Attributes:
        question: The question.
        documents: Texts by name.
    """

    question: str
    documents: Mapping[str, str]


def load_questions(path: str | Path, limit: int, seed: int = 0, sentences: int = SENTENCES) -> list[Asked]:
    """Read a JSONL file of questions, each line with "question" and "documents", texts or a mapping of them by name.

    Rows of QNLI ("question", "sentence", "label") are made to questions with documents of several sentences.

    Args:
        path: The file.
        limit: Most questions.
        seed: Chooses among QNLI's rows.
        sentences: Sentences of a document made from them.

    Raises:
        DataError: If it cannot be read; names file and line.
    """
    questions, pairs = read_questions(path, _asked)
    if pairs:
        return qnli_questions(pairs, limit, seed, sentences)
    if not questions:
        raise DataError(f"{path}: empty")
    return questions[:limit]


def _asked(row: Mapping[str, Any]) -> Asked:
    if not isinstance(row["question"], str):
        raise TypeError("a question is a text")
    return Asked(row["question"], documents_by_name(row["documents"]))


def read_questions(
    path: str | Path, parse: Callable[[Mapping[str, Any]], Line]
) -> tuple[list[Line], list[Mapping[str, Any]]]:
    """Read a JSONL file of questions with documents, or of QNLI's rows.

    Args:
        path: The file.
        parse: Makes a question of a line with documents; its errors are reported with the line's number.

    Returns:
        The questions, or the rows of QNLI ("question", "sentence", "label"); one of the two lists is empty.

    Raises:
        DataError: If the file cannot be read; names file and line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")  # a text may hold other ends of lines
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    questions: list[Line] = []
    pairs: list[Mapping[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if "documents" not in row and {"question", "sentence", "label"} <= set(row):
                pairs.append(row)
            else:
                questions.append(parse(row))
        except (ValueError, KeyError, TypeError, InputError) as error:
            raise DataError(f"{path}, line {number}: no question with documents: {error}") from None
    if pairs and questions:
        raise DataError(f"{path}: some lines have documents, and others are QNLI's; give them in two files")
    return questions, pairs


def qnli_questions(
    rows: Sequence[Mapping[str, Any]], count: int, seed: int = 0, sentences: int = SENTENCES
) -> list[Asked]:
    """Make questions with documents of several sentences out of QNLI: the sentence that answers among others.

    Args:
        rows: QNLI's rows; label 0 means that the sentence answers the question.
        count: How many at most.
        seed: Chooses questions, the other sentences, and the order.
        sentences: Sentences of a document.

    Raises:
        DataError: If there are too few rows.
    """
    random = np.random.default_rng(seed)
    answered = [i for i, row in enumerate(rows) if row["label"] == 0]
    if not answered or len(rows) < sentences:
        raise DataError(f"a document of {sentences} sentences needs as many rows, and one with label 0")
    questions = []
    for i in random.permutation(answered)[:count].tolist():
        chosen = [" ".join(str(rows[i]["sentence"]).split())]
        for other in random.permutation(len(rows)).tolist():
            sentence = " ".join(str(rows[other]["sentence"]).split())
            if sentence not in chosen and len(chosen) < sentences:
                chosen.append(sentence)
        order = random.permutation(len(chosen)).tolist()
        questions.append(Asked(str(rows[i]["question"]), {"text": "\n\n".join(chosen[k] for k in order)}))
    return questions
