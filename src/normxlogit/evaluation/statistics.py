"""Means with bootstrap intervals, rank correlation, and the best method for a budget of passes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
"""Resamples of the bootstrap."""

BUDGETS = (1.2, 3.0, 40.0)
"""Forward passes for which a method is recommended."""

Interval = tuple[float, float, float]
"""A mean with the ends of its 95% interval."""

Array = npt.NDArray[np.float64]


def mean_interval(values: Sequence[float] | Array, seed: int = 0, weights: Array | None = None) -> Interval:
    """Return a mean with its 95% bootstrap interval (percentiles of the means of 2,000 resamples).

    Args:
        values: One for each item that is resampled, (N,); with weights, a sum for each item.
        seed: Seed of the resamples.
        weights: The number of values in each sum, (N,).
    """
    sums = np.asarray(values, np.float64)  # (N,)
    counts = np.ones_like(sums) if weights is None else np.asarray(weights, np.float64)  # (N,)

    def ratio(sums: Array, counts: Array, axis: int = -1) -> Array:
        means: Array = sums.sum(axis) / counts.sum(axis)
        return means

    return bootstrap_interval(ratio, (sums, counts), seed, paired=True)


def bootstrap_interval(
    measure: Callable[..., Array], samples: Sequence[npt.NDArray[Any]], seed: int, **options: Any
) -> Interval:
    """Return a measure of samples with its 95% bootstrap interval (percentiles of 2,000 resamples).

    Args:
        measure: Called with the samples, (..., N) each, and the axis that is resampled, the last.
        samples: Resampled each by itself; with `paired=True`, together.
        seed: Seed of the resamples.
        **options: Of `scipy.stats.bootstrap`.
    """
    from scipy.stats import bootstrap

    value = float(measure(*samples))
    if min(map(len, samples)) < 2:
        return value, value, value
    random = np.random.default_rng(seed)
    result = bootstrap(samples, measure, n_resamples=RESAMPLES, method="percentile", rng=random, **options)
    return value, float(result.confidence_interval.low), float(result.confidence_interval.high)


def interval_text(interval: Interval, digits: int = 2) -> str:
    """Return an interval as "mean (low to high)"."""
    mean, low, high = (f"{value:.{digits}f}" for value in interval)
    return f"{mean} ({low} to {high})"


def rank_correlation(x: npt.NDArray[np.floating], y: npt.NDArray[np.floating]) -> float:
    """Return Spearman's rank correlation, 0 if one of the arguments is constant."""
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else 0.0  # pyright: ignore[reportAttributeAccessIssue]


class Candidate(NamedTuple):
    """A method that may be recommended.

    Attributes:
        method: Its name, with settings that differ from the defaults.
        passes: The cost of the method in forward passes.
        values: How good it is on each item, (N,); higher is better.
    """

    method: str
    passes: float
    values: Array


def recommendations(candidates: Sequence[Candidate], measure: str, seed: int = 0) -> str:
    """Return a sentence for each budget: the best method, and the interval of its difference to the next best.

    Args:
        candidates: The methods, measured on the same items.
        measure: What is compared, such as "AOPC".
        seed: Seed of the bootstrap.
    """
    lines = []
    for budget in BUDGETS:
        ranked = sorted((c for c in candidates if c.passes <= budget), key=lambda c: -float(c.values.mean()))
        if not ranked:
            continue
        best = ranked[0]
        figures = f"{measure} {best.values.mean():.3f}, {best.passes:.3g} passes"
        line = f"- at most {budget:g} passes: `{best.method}` ({figures})"
        if len(ranked) > 1:
            mean, low, high = mean_interval(best.values - ranked[1].values, seed)
            line += f"; {mean:+.3f} ({low:+.3f} to {high:+.3f}) to `{ranked[1].method}`"
        lines.append(line)
    return "\n".join(["Recommended here:", "", *lines]) + "\n" if lines else ""
