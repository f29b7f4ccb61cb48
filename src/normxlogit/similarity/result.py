"""`Similarity`, the result of comparing two texts, or a text and a picture."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Similarity(Attribution):
    """The scores of the units of two inputs for the cosine of their vectors; those of either, with its bias, sum to it.

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
        """Return the shape of the bias: one for each input."""
        return (2,)

    def _without_units(self) -> dict[str, Any]:
        """Return the fields of a result without units, which has no pairs of them either."""
        return {**super()._without_units(), "pairs": None}
