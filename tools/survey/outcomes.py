"""What a call of the survey came to, in a word or a line, and the comparisons that it is made of."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from normxlogit.errors import InputError, NormXLogitError
from tools.survey.base import CheckError

Call = Callable[[], Any]

TOLERANCE = 2e-4
"""Relative to the largest score, or to the sum of their sizes where they are added up."""


def attempt(call: Call, own: Call | None = None) -> str:
    """Make one call and put its outcome in a word or a line.

    Args:
        call: The library's call, with its comparisons.
        own: The model's own call of the same kind, which says whether a failure is the model's.
    """
    try:
        call()
    except NormXLogitError as error:
        if isinstance(error, InputError) and error.__cause__ is not None:  # the model's own code failed on the input
            return _failure(error.__cause__, own)
        return f"refused: {line_of(error)}"
    except Exception as error:
        return _failure(error, own)
    return "yes"


def _failure(error: BaseException, own: Call | None) -> str:
    try:
        if own is not None:
            own()
    except Exception as alike:
        return f"fails: the model's own call raises {line_of(alike)}"
    frames = traceback.extract_tb(error.__traceback__)
    place = next((f for f in reversed(frames) if "normxlogit" in f.filename), frames[-1])
    return f"error: {line_of(error)} ({Path(place.filename).name}:{place.lineno})"


def line_of(error: BaseException) -> str:
    """Return the class of an error and the first line of what it says."""
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}"[:400]


def same(found: Any, expected: Any, what: str, size: float = 0.02) -> None:
    """Compare scores, relative to the largest of them, or to `size` where that is larger.

    Raises:
        CheckError: If they differ.
    """
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        raise CheckError(f"{what}: shape {found.shape}, not {expected.shape}")
    if not np.isfinite(found).all():
        raise CheckError(f"{what}: not finite")
    difference, size = np.abs(found - expected).max(initial=0), max(np.abs(expected).max(initial=0), size)
    if not difference <= TOLERANCE * size:
        raise CheckError(f"{what}: off by {difference:.2g} at a size of {size:.2g}")


def adds_up(result: Any, logits: Any, what: str, scores: Any = None) -> None:
    """Compare scores plus bias (and attention sinks) with the model's own logits, relative to the sizes of the parts.

    Args:
        result: A result with a bias, of the shape of `logits`.
        logits: What is explained: one number for each of the result's rows.
        what: Names the comparison.
        scores: What is summed, in the place of the result's scores; its last axis is summed over.

    Raises:
        CheckError: If they differ, or there is no bias.
    """
    if result.bias is None:
        raise CheckError(f"{what}: the result has no bias")
    parts = [np.asarray(result.scores if scores is None else scores, np.float64), np.asarray(result.bias)[..., None]]
    if result.sink is not None:
        parts.append(np.asarray(result.sink)[..., None])
    every = np.concatenate(parts, -1)
    difference, size = np.abs(every.sum(-1) - np.asarray(logits)), np.abs(every).sum(-1)
    if not (difference <= TOLERANCE * np.maximum(size, 0.02)).all():
        raise CheckError(f"{what}: off by {difference.max():.2g} at a size of {size.max():.2g}")


def kind(outcome: str) -> str:
    """Return the first word of an outcome: "yes", "refused", "fails" or "error"."""
    return re.split(r"[:\s]", outcome, maxsplit=1)[0]
