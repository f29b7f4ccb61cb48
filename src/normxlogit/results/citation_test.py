"""What an answer loses without its documents, and which of their values it contradicts: the test of citations."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .base import require
from .storage.schema import FloatArray, Index, Number, freeze

CLOSE = 0.25
"""Nats within which two values are about as likely as each other; chosen on 60 sentences, see docs/grounding.md."""


class Swap(NamedTuple):
    """A value of an answer, and the likeliest other value of the documents in its place.

    Attributes:
        sentence: Which sentence of the answer it is in.
        value: The value.
        start: Its first character in the text.
        end: One past its last.
        other: The likeliest other value of its kind.
        source: The name of the first source that holds the other value.
        margin: Log-probability of the sentence less that with the other value, in nats; below 0 the model would rather
            have read the other.
    """

    sentence: Index
    value: str
    start: Index
    end: Index
    other: str
    source: str
    margin: Number


@dataclass(frozen=True, eq=False)
class CitationTest:
    """What the model answers without sources, and with other values.

    Attributes:
        losses: float32, (K, S): what the log-probability of each sentence of the answer loses without each source, in
            nats; NaN for sources that were not left out.
        without_documents: float32, (K,): what it loses without all sources; NaN where nothing else is in the prompt.
        swaps: The values of the answer that have another of their kind in the documents.
    """

    losses: FloatArray
    without_documents: FloatArray
    swaps: tuple[Swap, ...] = ()

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        freeze(self)

    def contradiction(self, sentence: int) -> Swap | None:
        """Return the value of a sentence that the documents contradict the most; None where they contradict none."""
        negative = [swap for swap in self.swaps if swap.sentence == sentence and swap.margin < -CLOSE]
        return min(negative, key=lambda swap: swap.margin, default=None)

    def whole(self) -> FloatArray:
        """Return what the whole answer loses without each source, in nats, (S,); NaN where that was not measured."""
        return np.asarray(self.losses.astype(np.float64).sum(0), np.float32)

    def most(self) -> FloatArray:
        """Return the most that a sentence loses without each source, in nats, (S,); NaN where it was not measured."""
        most: FloatArray = np.fmax.reduce(self.losses, axis=0)
        return most

    def validate(self, sentences: int, names: tuple[str, ...], characters: int) -> None:
        """Raise ValueError if it does not fit an answer."""
        require(self.losses.shape == (sentences, len(names)), "verified: losses not of each sentence and source")
        require(self.without_documents.shape == (sentences,), "verified: not one loss for each sentence")
        for swap in self.swaps:
            require(swap.sentence < sentences and swap.source in names, "verified: a swap of no sentence or source")
            require(swap.start <= swap.end <= characters, "verified: a swap outside the text")
