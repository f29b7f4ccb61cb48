"""`Similarity`, the result of comparing two texts, or a text and a picture."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import DataError
from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..render.blocks import Block


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Similarity(Attribution):
    """The scores of the units of two inputs for the cosine of their vectors; those of either add up to it.

    Attributes:
        bias: float32, (2,): of either input.
        pairs: float32, (T1 + 1, T2 + 1): what each pair of tokens of two texts adds to their cosine, which is its sum;
            the last row and column are the biases'. None if that was not asked for.
    """

    kind: ClassVar = "similarity"
    described: ClassVar = "a similarity"
    pairs: FloatArray | None = None

    @property
    def title(self) -> str:
        """The heading of a page of such results."""
        return "Similarity"

    def _bias_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (2,)

    def _without_units(self) -> dict[str, Any]:
        return {**super()._without_units(), "pairs": None}

    def _blocks(self, *, words: bool | None = None) -> "list[Block]":
        from .drawing import similarity_blocks

        return similarity_blocks(self, words=words)

    def plot(self, kind: Any = None, **options: Any) -> "Figure":
        """Return the scores as a matplotlib figure, see `Attribution.plot`; a heat map is of pairs if there are any.

        Raises:
            DataError: If a waterfall is asked for: either input's scores add up by themselves.
        """
        from ..plots.plots import heat_map
        from .drawing import pairs_grid

        if kind == "waterfall":
            raise DataError(
                "a waterfall adds scores up, and a cosine's are of two texts that each add up to it; draw bars"
            )
        if kind == "heatmap" and self.pairs is not None:
            return heat_map(pairs_grid(self))
        return super().plot(kind, **options)
