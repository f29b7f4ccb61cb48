"""Questions with documents, from JSON lines or made from QNLI."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...errors import DataError, InputError
from ..documents.documents import documents_by_name

SENTENCES = 7
"""Sentences of a document made from QNLI: the one that answers and others."""


ParsedLine = TypeVar("ParsedLine")
"""The type that a line of a file is parsed to."""


@dataclass(frozen=True)
class Asked:
    """A question with its documents."""

    question: str
    documents: Mapping[str, str]


def load_questions(path: str | Path, limit: int, seed: int = 0, sentences: int = SENTENCES) -> list[Asked]:
    """Read a JSONL file of questions, each line with "question" and "documents", texts or a mapping of them by name.

    Rows of QNLI ("question", "sentence", "label") are turned into questions with documents of several sentences.

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
    path: str | Path, parse: Callable[[Mapping[str, Any]], ParsedLine]
) -> tuple[list[ParsedLine], list[Mapping[str, Any]]]:
    """Read a JSONL file of questions with documents, or of QNLI's rows.

    Args:
        path: The file.
        parse: Makes a question of a line with documents; its errors are reported with the line's number.

    Returns:
        The questions, or the rows of QNLI ("question", "sentence", "label"); one of the two lists is empty.

    Raises:
        DataError: If the file cannot be read; names file and line.
    """
    pairs: list[Mapping[str, Any]] = []

    def parse_line(row: Mapping[str, Any]) -> list[ParsedLine]:
        if "documents" not in row and {"question", "sentence", "label"} <= set(row):
            pairs.append(row)
            return []
        return [parse(row)]

    questions = list(chain.from_iterable(read_lines(path, parse_line, "no question with documents")))
    if pairs and questions:
        raise DataError(f"{path}: some lines have documents, and others are QNLI's; give them in two files")
    return questions, pairs


def read_lines(
    path: str | Path, parse: Callable[[Mapping[str, Any]], ParsedLine], wrong: str, limit: int | None = None
) -> list[ParsedLine]:
    """Read a JSONL file.

    Args:
        path: The file.
        parse: Makes something of a line; its errors are reported with the line's number.
        wrong: The message for a line that cannot be parsed.
        limit: Most lines; None for all.

    Raises:
        DataError: If the file cannot be read; names file and line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")  # a text may hold other ends of lines
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    parsed: list[ParsedLine] = []
    for number, line in islice(((i, line) for i, line in enumerate(lines, start=1) if line.strip()), limit):
        try:
            parsed.append(parse(json.loads(line)))
        except (ValueError, KeyError, TypeError, InputError) as error:  # noqa: PERF203  # names the line
            raise DataError(f"{path}, line {number}: {wrong}: {error}") from None
    return parsed


class QNLIDocument(NamedTuple):
    """A question of QNLI with sentences, one of which answers it.

    Attributes:
        sentences: The sentence that answers, among others.
        spare: One more sentence that does not answer; empty if the rows have no more.
    """

    question: str
    sentences: list[str]
    place: int
    spare: str


def qnli_documents(rows: Sequence[Mapping[str, Any]], count: int, seed: int, sentences: int) -> list[QNLIDocument]:
    """Draw questions of QNLI, each with a document in which one of the sentences answers it, and a spare sentence.

    Args:
        rows: QNLI's rows; label 0 means that the sentence answers the question.
        count: Most questions. With the same seed, a smaller count draws the first questions of a larger one.
        seed: Chooses questions, the other sentences, and the order.
        sentences: Sentences of a document.

    Raises:
        DataError: If there are too few rows.
    """
    random = np.random.default_rng(seed)
    answered = [i for i, row in enumerate(rows) if row["label"] == 0]
    if not answered or len(rows) < sentences:
        raise DataError(f"a document of {sentences} sentences needs as many rows, and one with label 0")
    documents = []
    for i in random.permutation(answered)[:count].tolist():
        question, evidence = str(rows[i]["question"]), _one_line(str(rows[i]["sentence"]))
        shuffled = [rows[index] for index in random.permutation(len(rows)).tolist()]
        other_sentences = (
            _one_line(str(row["sentence"])) for row in shuffled if row["label"] != 0 or row["question"] != question
        )
        distinct = list(islice(dict.fromkeys(text for text in other_sentences if text != evidence), sentences))
        document, spare_sentences = [evidence, *distinct[: sentences - 1]], distinct[sentences - 1 :]
        order = random.permutation(len(document)).tolist()
        documents.append(QNLIDocument(question, [document[k] for k in order], order.index(0), "".join(spare_sentences)))
    return documents


def qnli_questions(
    rows: Sequence[Mapping[str, Any]], count: int, seed: int = 0, sentences: int = SENTENCES
) -> list[Asked]:
    """Draw questions of QNLI, each with one document of several sentences; see `qnli_documents`."""
    documents = qnli_documents(rows, count, seed, sentences)
    return [Asked(document.question, {"text": "\n\n".join(document.sentences)}) for document in documents]


def _one_line(text: str) -> str:
    return " ".join(text.split())
