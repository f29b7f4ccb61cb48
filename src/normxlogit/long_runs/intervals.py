"""Confidence intervals of shares and means, all of 95%."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import optional_module

NORMAL = 1.96
"""How many standard errors a 95% interval reaches to either side by the normal distribution."""


def quantile(counts: Any) -> Any:
    """Return how many standard errors the interval of a mean reaches to either side, by Student's t.

    It has `counts` - 1 degrees of freedom.

    Args:
        counts: How many values the mean is of, 2 or more; a number, or an array of numbers.

    Raises:
        DataError: If SciPy is not installed.
    """
    statistics = optional_module("scipy.stats", "intervals need SciPy: pip install 'normxlogit[scale]'")
    return statistics.t.ppf(0.975, counts - 1)


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
    scale = 1 + NORMAL**2 / count
    return max(0.0, (middle - half_width) / scale), min(1.0, (middle + half_width) / scale)
