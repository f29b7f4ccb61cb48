"""Questions with documents, from JSON lines."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ...errors import DataError, InputError
from ..documents.documents import read_documents

ParsedLine = TypeVar("ParsedLine")
"""The type that a line of a file is parsed to."""


@dataclass(frozen=True)
class Asked:
    """A question with its documents."""

    question: str
    documents: Mapping[str, str]


def load_questions(path: str | Path, limit: int | None = None) -> list[Asked]:
    """Read a JSONL file of questions, each line with "question" and "documents", texts or a mapping of them by name.

    Args:
        path: The file.
        limit: Most questions.

    Raises:
        DataError: If it cannot be read; names file and line.
    """

    def asked(row: Mapping[str, Any]) -> Asked:
        if not isinstance(row["question"], str):
            raise TypeError("a question is a text")
        return Asked(row["question"], read_documents(row["documents"])[0])

    if not (questions := read_lines(path, asked, "no question with documents", limit)):
        raise DataError(f"{path}: empty")
    return questions


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
