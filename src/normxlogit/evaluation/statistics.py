"""Means with bootstrap intervals, and rank correlation; further intervals are in `long_runs/intervals.py`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
"""Resamples of the bootstrap."""

Interval = tuple[float, float, float]
"""A mean with the ends of its 95% interval."""

Array = npt.NDArray[np.float64]


def mean_interval(values: Sequence[float] | Array, seed: int = 0, weights: Array | None = None) -> Interval:
    """Return a mean with its 95% bootstrap interval.

    Args:
        values: The values, (N,); with `weights` the sums of values that are drawn together.
        seed: Of the bootstrap.
        weights: How many values each sum has, (N,); None for one.
    """
    sums = np.asarray(values, np.float64)  # (N,)
    counts = np.ones_like(sums) if weights is None else np.asarray(weights, np.float64)  # (N,)

    def ratio(sums: Array, counts: Array, axis: int = -1) -> Array:
        """Return the mean of the values of sums, also of all resamples at once."""
        return sums.sum(axis) / counts.sum(axis)

    return bootstrap_interval(ratio, (sums, counts), seed, paired=True)


def bootstrap_interval(
    measure: Callable[..., Array], samples: Sequence[npt.NDArray[Any]], seed: int, **options: Any
) -> Interval:
    """Return a measure of samples, (..., N) each, with its 95% bootstrap interval (percentiles of 2,000 resamples).

    The last axis is resampled, of each sample by itself; with `paired=True` together. A single value has no interval:
    both ends are the value.

    Args:
        measure: A function of the samples and an axis.
        samples: The samples, (..., N) each.
        seed: Of the bootstrap.
        **options: Passed to `scipy.stats.bootstrap`.
    """
    from scipy.stats import bootstrap

    value = float(measure(*samples))
    if min(map(len, samples)) < 2:
        return value, value, value
    random = np.random.default_rng(seed)
    result = bootstrap(samples, measure, n_resamples=RESAMPLES, method="percentile", rng=random, **options)
    return value, float(result.confidence_interval.low), float(result.confidence_interval.high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, in the order in which they are given (Holm, 1979).

    The smallest of M p-values is multiplied by M, the next by M - 1 and so on.

    Args:
        p_values: Those of all comparisons that are made, M.
    """
    corrected = [1.0] * len(p_values)
    largest = 0.0  # so far: a larger p-value is not corrected to less than a smaller one
    for rank, index in enumerate(np.argsort(p_values).tolist()):
        largest = max(largest, (len(p_values) - rank) * p_values[index])
        corrected[index] = min(1.0, largest)
    return corrected


def interval_text(interval: Interval, digits: int = 2) -> str:
    """Return an interval as "mean (low to high)"."""
    mean, low, high = (f"{value:.{digits}f}" for value in interval)
    return f"{mean} ({low} to {high})"


def rank_correlation(x: npt.NDArray[np.floating], y: npt.NDArray[np.floating]) -> float:
    """Return Spearman's rank correlation, 0 if one of the arguments is constant."""
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else 0.0  # pyright: ignore[reportAttributeAccessIssue]
