"""Pictures and sounds with questions whose evidence is known: where it stands in the picture, or when it is heard."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from normxlogit.evaluation.datasets import parsed_rows
from normxlogit.results.units.media import Medium

Evidence = tuple[tuple[float, ...], ...]
"""Boxes (left, top, right, bottom) in pixels, or spans (start, end) in seconds."""


class PointingCase(NamedTuple):
    """A picture or a sound, the right answer, and what each word of it rests on.

    Attributes:
        path: The file.
        question: The question about a picture; empty for a sound, which is written down.
        answer: The right answer.
        evidence: For each word of the answer.
        level: A kind of question that is reported by itself.
    """

    path: Path
    question: str
    answer: str
    evidence: tuple[Evidence, ...]
    level: str = ""

    @property
    def is_picture(self) -> bool:
        """Whether the file is a picture, not a sound."""
        return bool(self.question)

    @property
    def prompt(self) -> Any:
        """What `Explainer.generate` reads."""
        if not self.is_picture:
            return str(self.path)
        content = [{"type": "image", "image": str(self.path)}, {"type": "text", "text": self.question}]
        return [{"role": "user", "content": content}]


def load_pointing_cases(path: str | Path, limit: int) -> list[PointingCase]:
    """Read cases from JSON lines.

    Args:
        path: Lines with "image", "question", "answer" and "boxes" (the evidence of the answer, each left, top, right,
            bottom in pixels), or with "audio", "answer" and "times" (start and end in seconds for each word of the
            answer); "level" names a kind of question. Files are looked for beside it.
        limit: Most cases.

    Raises:
        DataError: If the file cannot be read; names file and line.
    """
    return parsed_rows(path, partial(_case, Path(path).parent), "no picture or sound with its evidence", limit)


def _case(folder: Path, row: Mapping[str, Any]) -> PointingCase:
    """Return a row of the file as a case.

    Raises:
        ValueError: If something of it is missing.
    """
    answer, level = str(row["answer"]), str(row.get("level", ""))
    words = answer.split()
    if not words:
        raise ValueError("the answer is empty")
    if "image" in row:
        question, evidence = str(row["question"]), (_spans(row["boxes"], 4),) * len(words)
        if not question:
            raise ValueError("the question is empty")
    else:
        question, evidence = "", tuple((span,) for span in _spans(row["times"], 2))
        if len(evidence) != len(words):
            raise ValueError(f"{len(words)} words in the answer, and {len(evidence)} times")
    path = folder / str(row.get("image") or row["audio"])
    if not path.is_file():
        raise ValueError(f"no file {path}")
    return PointingCase(path, question, answer, evidence, level)


def _spans(values: Any, numbers: int) -> Evidence:
    """Return lists of so many numbers each as evidence."""
    spans = tuple(tuple(float(value) for value in span) for span in values)
    if not spans or any(len(span) != numbers for span in spans):
        raise ValueError(f"evidence is a list of {numbers} numbers each")
    return spans


def middles(media: Medium) -> npt.NDArray[np.float64]:
    """Return the middle of each part of a picture or sound, (N, 2) or (N, 1)."""
    boxes = np.asarray(media.places, np.float64)  # (..., 2 axes)
    low, high = np.split(boxes.reshape(-1, boxes.shape[-1]), 2, axis=-1)  # (N, axes) each
    return (low + high) / 2


def on_evidence(media: Medium, evidence: Evidence) -> npt.NDArray[np.bool_]:
    """Return whether the middle of each part of a picture or sound lies in its evidence, (N,)."""
    middle = middles(media)[:, None]  # (N, 1, axes)
    low, high = np.split(np.asarray(evidence, np.float64), 2, axis=-1)  # (E, axes)
    return np.asarray(((middle >= low) & (middle < high)).all(-1).any(-1))
