"""A comparison of several methods on one text, with their rank agreement."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .attribution import Attribution
from .base import Exports
from .collection import Attributions
from .storage.schema import FloatArray
from .units.characters import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..render.blocks import Block


class Comparison(Attributions[Attribution]):
    """The results of several methods for one text and one target, in the order of the methods."""

    def check(self) -> None:
        """Check that the results can be compared.

        Raises:
            DataError: If there is none, or they are not of the same model, tokens and target, or hold several scores
                for each.
        """
        if not self:
            raise DataError("there are no results to compare")
        if any(a.scores.ndim != 1 for a in self):
            raise DataError("methods are compared by one score for each token; choose a target and a layer first")
        inputs = [(a.units.text, a.text, a.text_pair, a.targets, a.model) for a in self]
        if any(explained != inputs[0] for explained in inputs):
            raise DataError("methods are compared on one text, one target and one model, and these results differ")

    @property
    def comparable(self) -> bool:
        """Whether there are several results, which can be compared."""
        try:
            self.check()
        except DataError:
            return False
        return len(self) > 1

    @property
    def agreement(self) -> npt.NDArray[np.float64]:
        """Spearman's rank correlation between each two methods over the tokens of the text, (M, M).

        Raises:
            DataError: If the results are not of the same model, tokens and target, or hold several scores for each.
        """
        self.check()
        return np.array([[rank_agreement(a, b) for b in self] for a in self])

    def _blocks(self) -> "list[Block]":
        from ..render.builders.comparison import comparison_blocks

        return comparison_blocks(self)

    def _title(self) -> str:
        return f"{len(self)} methods on one text"

    _cards, _repr_html_ = Exports._cards, Exports._repr_html_

    def plot(self, *, k: int | None = None) -> "Figure":  # type: ignore[override]
        """Return a matplotlib heat map, a row for each method on the scale of its own largest score.

        Args:
            k: How many words: those that are strongest by any method, in the order of the text.

        Raises:
            DataError: If matplotlib is missing, or the results are not of the same model, tokens and target.
        """
        from ..render.builders.comparison import comparison_grid
        from ..render.figures.plots import figure_of

        self.check()
        return figure_of(comparison_grid(self).strongest(k))

    def __str__(self) -> str:
        return Exports.__str__(self) if len(self) else "no results"

    def __repr__(self) -> str:
        return escaped(f"Comparison({', '.join(result.method for result in self)})")


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
