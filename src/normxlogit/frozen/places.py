"""Places: where contributions are read in a frozen pass, by the side of the input and the layer.

At a hidden state h that is on every path from the input to the answer, token i contributes <g_i, h_i>, g the gradient
that arrives there; with the bias of what follows these sum to the answer.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple

from torch import Tensor

from ..inputs.batches import Batch

ReadAt = int | Literal["first-half", "middle", "all"]
"""The layers at which contributions are read, see `FrozenGradient`."""


class Side(IntEnum):
    """A part of the input, in the order in which models read them."""

    MEDIA = 0  # pictures and sounds beside a text
    SOURCE = 1  # what an encoder reads for a decoder
    TEXT = 2  # a text, the decoder's, or whatever else the layers with the answer read


class Place(NamedTuple):
    """Where contributions are read: the output of a layer, or where the input enters; ordered as they are computed."""

    side: Side  # whose contributions
    layer: int  # l for the output of layer l, 0 for the embedding layer's, -1 for the word embeddings of a text


WORDS = Place(Side.TEXT, -1)
"""Where the words of a text enter: its word embeddings."""

SOURCE = Place(Side.SOURCE, 0)
"""Where a source enters: its word embeddings, or the encoder's first module with weights."""

MEDIA = Place(Side.MEDIA, 0)
"""Where pictures and sounds beside a text enter: the output of their patch embedding, or of the first convolution."""


def masks_of(batch: Batch) -> dict[Side, Tensor]:
    """Return the real tokens of the text, and of a source, (B, T)."""
    # (B, S, 1): its last axis has one entry.
    source = {Side.SOURCE: batch.inputs["source_mask"][..., 0].bool()} if batch.has_source else {}
    return {Side.TEXT: batch.mask, **source}


def lowest_of_sides(places: Collection[Place]) -> list[Place]:
    """Return the lowest place of each side, where the input enters the graph."""
    return [min(place for place in places if place.side is side) for side in sorted({p.side for p in places})]


@dataclass(frozen=True)
class Reading:
    """What a frozen pass reads."""

    places: Sequence[Place]  # where contributions are read; at the lowest of each side, the input enters the graph
    # From how many times the median of its layer on a hidden state counts as an attention sink, which is held where it
    # leaves the layer; None holds none
    sink_threshold: float | None = None
    # The word embeddings from which contributions are differences, (B, T, H); None for zero
    baseline: Tensor | None = None
    point: float = 1.0  # where on the path from the baseline, 0, to the text, 1, the network is frozen

    @property
    def is_at_text(self) -> bool:
        """Whether the network is frozen at the text itself, and contributions are differences from zero."""
        return self.point == 1.0 and self.baseline is None
