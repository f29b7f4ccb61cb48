"""Confidence intervals of shares and means, all of 95%."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import optional_module

NORMAL = 1.96
"""Standard errors of an interval of many values."""


def quantile(counts: Any) -> Any:
    """Return how many standard errors the interval of a mean of `counts` values reaches, by Student's t.

    Args:
        counts: A number, or an array of numbers, of 2 or more.
    """
    student = optional_module("scipy.stats", "intervals need SciPy: pip install 'normxlogit[scale]'").t
    return student.ppf(0.975, counts - 1)


def student_interval(values: Sequence[float] | npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the mean of values, (N,), with its interval by Student's t: of a single value NaN to NaN."""
    sample = np.asarray(values, np.float64)  # (N,)
    mean = float(sample.mean())
    count = len(sample)
    if count < 2:
        return mean, float("nan"), float("nan")
    half_width = float(quantile(count) * sample.std(ddof=1) / count**0.5)
    return mean, mean - half_width, mean + half_width


def wilson_interval(rate: float, count: int) -> tuple[float, float]:
    """Return the interval of a rate (Wilson, 1927).

    Args:
        rate: The rate.
        count: How many independent observations it is of.
    """
    middle = rate + NORMAL**2 / (2 * count)
    half_width = NORMAL * sqrt(rate * (1 - rate) / count + NORMAL**2 / (4 * count**2))
    low, high = ((middle + side * half_width) / (1 + NORMAL**2 / count) for side in (-1, 1))
    return max(0.0, low), min(1.0, high)
