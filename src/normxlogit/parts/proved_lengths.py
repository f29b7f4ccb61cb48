"""The lengths for which a property of a model was proved."""

from collections.abc import Iterable


class ProvedLengths:
    """Ranges of lengths at whose two ends the property was proved.

    What changes with the length of a text or of a batch (rotary embeddings that stretch, attention that turns sparse)
    changes from some length on, so what is alike at the ends of a range is alike within it. It need not be alike beyond
    it, nor between two ranges, not even where they overlap: small differences would add up. A range that is inside a
    range that was proved needs no proof of its own, so a model that reads texts of ordinary lengths is tried a few
    times and then no more.

    Attributes:
        refuted: Whether some trial failed, after which fewer are made.
    """

    def __init__(self) -> None:
        self._ranges: tuple[tuple[int, int], ...] = ()
        self.refuted = False

    def covers(self, shortest: int, longest: int) -> bool:
        """Return whether a range of lengths is inside one that was proved."""
        return any(low <= shortest and longest <= high for low, high in self._ranges)

    def add(self, shortest: int, longest: int) -> None:
        """Record that the property holds from one length to another."""
        inside = [(low, high) for low, high in self._ranges if shortest <= low and high <= longest]
        self._ranges = (*(bounds for bounds in self._ranges if bounds not in inside), (shortest, longest))


def lengths_to_try(lengths: Iterable[int]) -> list[int]:
    """Return the lengths of the texts to try in a batch with the longest, the shortest first.

    A text of few tokens shows little: its only token has the same state with any rotary embedding. So texts are tried
    whose lengths are close to twice each other; whatever the length from which states are others, one of more than half
    of the tokens that it changes is among them.

    Args:
        lengths: Of all texts, of more than one length.
    """
    *shorter, longest = sorted(set(lengths))
    chosen, bound = set(), shorter[0]
    while bound < 2 * longest:
        chosen.add(max(length for length in shorter if length <= bound))
        bound *= 2
    return sorted(chosen)
