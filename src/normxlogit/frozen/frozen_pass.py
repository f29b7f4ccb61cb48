"""The record of a forward pass through which the frozen network backpropagates."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor, nn

from ..copies.pool import Lease
from ..model.forward_pass import ForwardPass
from .head_answers import HeadAnswer
from .readout import Readout


@dataclass(frozen=True, kw_only=True)
class FrozenPass(ForwardPass):
    """A forward pass with the graph to backpropagate through.

    Attributes:
        readouts: By place, where contributions can be read: 0 the word embeddings, l the output of layer l; the source
            of an encoder-decoder model has negative places, see `entry_points.SOURCE`.
        answer: What the model answers, (B, C) or (B, T, C); of a language model with a head what that reads, (B, T, H).
        entries: By what leaves the input enters the graph.
        lease: The copy that was run, held until the gradients are read: its layers may run again for them; None for a
            pass that the caller ran.
        predicted: Of a language model the head's answers at the position of each text; None where they were not asked
            for.
    """

    readouts: dict[int, Readout]
    answer: Tensor
    entries: list[Tensor]
    lease: Lease[nn.Module] | None
    predicted: Sequence[HeadAnswer] | None = None

    @classmethod
    def of(cls, run: ForwardPass, **graph: Any) -> "FrozenPass":
        """Return a forward pass with its graph, the fields of this class by name."""
        return cls(**{field.name: getattr(run, field.name) for field in fields(ForwardPass)}, **graph)
