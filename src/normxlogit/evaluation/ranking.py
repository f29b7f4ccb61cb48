"""Agreement of rankings of tokens, words or sources with leave-one-out, averaged over texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from .report import markdown_table
from .statistics import Interval, interval_text, mean_interval, rank_correlation

FigureColumn = tuple[str, str, int]
"""The title of a table's column, the name of the figure in it (see `summarise_ranking`), and its decimal places."""


@dataclass(frozen=True)
class RankingResult:
    """How well a method ranks the units (tokens, words or sources) of N texts.

    Attributes:
        method: The method, with settings that differ from the defaults.
        texts: N.
        means: The mean of each figure over the texts with its 95% interval, by the figure's name.
        shares: The drop without the first unit as a share of the largest drop, by name.
        passes: Its cost in forward passes; a text as in `MethodInfo` where it was not measured; None for a ranking that
            reads nothing.
        per_text: The drop of each text without the first unit, (N,).
    """

    method: str
    texts: int
    means: Mapping[str, Interval]
    shares: Mapping[str, float]
    passes: float | str | None
    per_text: tuple[float, ...]


def agreement(scores: npt.NDArray[np.floating], drops: npt.NDArray[np.floating], prefix: str = "") -> dict[str, float]:
    """Compare a method's ranking of the units of a text (tokens, words or sources) with that of leave-one-out.

    Args:
        scores: The method's scores of S units, (S,).
        drops: How much of the answer is lost without each of them alone, (S,).
        prefix: What the names of the figures begin with.

    Returns:
        "agrees": 1 where both rank the same unit first, else 0. "first": the drop without the unit of the highest
        score. "best": the largest drop. "spearman": the rank correlation of scores and drops.
    """
    highest = int(scores.argmax())
    return {
        f"{prefix}agrees": float(highest == drops.argmax()),
        f"{prefix}first": float(drops[highest]),
        f"{prefix}best": float(drops.max()),
        f"{prefix}spearman": rank_correlation(scores, drops),
    }


def summarise_ranking(
    method: str,
    texts: Sequence[Mapping[str, float]],
    passes: float | str | None,
    seed: int = 0,
    weights: Sequence[int] | None = None,
) -> RankingResult:
    """Average the figures of a ranking over texts, or over groups of `weights` texts that are drawn together.

    A figure "...first" is the drop without the first unit, and "...best" the largest drop, see `agreement`. The ratio
    of their sums over texts is added as the share "...nats".

    Args:
        method: The method, with settings that differ from the defaults.
        texts: The figures of each text, or of each group, by name.
        passes: Its cost in forward passes; None for a ranking that reads nothing.
        seed: Of the bootstrap.
        weights: How many texts each group has; None for one.
    """
    counts = None if weights is None else np.array(weights, np.float64)  # (N,)
    means = {}
    shares = {}
    for name in dict.fromkeys(chain.from_iterable(texts)):
        values = [figures[name] for figures in texts if name in figures]
        means[name] = mean_interval(values, seed, counts)
        if name.endswith("first"):
            prefix = name.removesuffix("first")
            shares[f"{prefix}nats"] = sum(values) / sum(figures[f"{prefix}best"] for figures in texts)
    return RankingResult(
        method,
        texts=len(texts) if weights is None else sum(weights),
        means=means,
        shares=shares,
        passes=passes,
        per_text=tuple(figures["first"] for figures in texts),
    )


def ranking_table(results: Sequence[RankingResult], columns: Sequence[FigureColumn], by: str) -> str:
    """Return a Markdown table: the first result, which is leave-one-out, then the others by a figure.

    Args:
        results: Leave-one-out, and the others.
        columns: Heading, name and number of digits of each figure.
        by: The name of the figure by whose mean they are ordered, the highest first.
    """
    leave_one_out = results[0]
    ranked = sorted(results[1:], key=lambda r: -r.means[by][0])
    rows = []
    for result in (leave_one_out, *ranked):
        # A cost that was not measured is the text of `MethodInfo.passes`.
        passes = f"{result.passes:.3g}" if isinstance(result.passes, float) else result.passes or ""
        figures = [_figure_cell(result, name, digits) for _, name, digits in columns]
        rows.append([result.method, passes, *figures])
    return markdown_table(["method", "passes", *(title for title, _, _ in columns)], rows)


def _figure_cell(result: RankingResult, name: str, digits: int) -> str:
    """Return a share, or a mean with its interval, as a cell of a table; an empty one if it was not measured.

    Args:
        result: The result of a method.
        name: The name of the figure.
        digits: Its decimal places.
    """
    if name in result.shares:
        return f"{result.shares[name]:.{digits}f}"
    return interval_text(result.means[name], digits) if name in result.means else ""
