"""The figure of a similarity."""

from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..plots.plots import heat_map, plot_attribution
from .drawing import pairs_grid
from .result import Similarity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_similarity(s: Similarity, kind: Any = None, **options: Any) -> "Figure":
    """Draw a similarity as `Attribution.plot` does; its heat map is of pairs if there are any.

    Raises:
        DataError: If a waterfall is asked for: either input's scores add up by themselves.
    """
    if kind == "waterfall":
        raise DataError("a waterfall adds scores up, and a cosine's are of two texts that each add up to it; draw bars")
    if kind == "heatmap" and s.pairs is not None:
        return heat_map(pairs_grid(s))
    return plot_attribution(s, kind, **options)
