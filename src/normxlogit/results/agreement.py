"""How far the rankings of two methods agree."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .attribution import Attribution
from .storage.schema import FloatArray


def rank_agreement(first: Attribution, second: Attribution) -> float:
    """Return Spearman's rank correlation of the scores of the same tokens, special ones left out.

    Args:
        first: One score for each token.
        second: The same tokens by another method.

    Returns:
        From -1 to 1; NaN where there are fewer than two tokens, or one of the two scores them all alike.
    """
    if first.units.text != second.units.text:
        raise DataError("rankings are compared on the same tokens, and these results have other ones")
    if first.scores.ndim != 1 or second.scores.ndim != 1:
        raise DataError("rankings need one score for each token; choose with a[target] and a.layer(...)")
    not_special = ~np.array(first.units.special)
    a, b = _ranks(first.scores[not_special]), _ranks(second.scores[not_special])
    if len(a) < 2 or not a.std() or not b.std():
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(scores: FloatArray) -> npt.NDArray[Any]:
    """Return the rank of each score, ties sharing their mean."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: npt.NDArray[Any] = ends - (counts - 1) / 2
    return means[places]
