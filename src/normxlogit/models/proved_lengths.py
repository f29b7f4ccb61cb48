"""For which lengths a property of a model was proved."""

__all__ = ["ProvedLengths"]


class ProvedLengths:
    """Ranges of lengths at whose two ends a model was seen to behave alike.

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

    def cover(self, shortest: int, longest: int) -> bool:
        """Return whether a range of lengths is inside one that was proved."""
        return any(low <= shortest and longest <= high for low, high in self._ranges)

    def add(self, shortest: int, longest: int) -> None:
        """Note that the property holds from one length to another."""
        inside = [(low, high) for low, high in self._ranges if shortest <= low and high <= longest]
        self._ranges = (*(one for one in self._ranges if one not in inside), (shortest, longest))
