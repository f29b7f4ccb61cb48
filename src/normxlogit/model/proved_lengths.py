"""`ProvedLengths`: the lengths of texts for which a property of a model was proved, and those at which it is tried."""

from collections.abc import Callable, Iterable

from ..copies.memory import result_or_none


class ProvedLengths:
    """Ranges of lengths, at both ends of which a property was proved.

    What changes with the length (rotary embeddings that stretch, attention that turns sparse) changes from some length
    on, so what is alike at the ends of a range is alike within it, but not beyond it, nor between overlapping ranges.

    Attributes:
        refuted: Whether a trial has shown that the property does not hold, or a caller knows it. Callers ask this
            first, and then call `prove` no more.
    """

    def __init__(self) -> None:
        self._ranges: tuple[tuple[int, int], ...] = ()
        self.refuted = False  # whether the last trial failed, or the property cannot hold

    def covers(self, shortest: int, longest: int) -> bool:
        """Return whether a range of lengths, both ends included, is inside one that was proved."""
        return any(low <= shortest and longest <= high for low, high in self._ranges)

    def add(self, shortest: int, longest: int) -> None:
        """Record that the property holds from one length to another; ranges inside the new one are no longer needed."""
        not_inside = [(low, high) for low, high in self._ranges if low < shortest or longest < high]
        self._ranges = (*not_inside, (shortest, longest))

    def prove(self, shortest: int, longest: int, trial: Callable[[], bool]) -> bool:
        """Run a trial of the property, and record what it shows; without memory for it, nothing is known.

        Args:
            shortest: The least number of tokens for which the trial speaks.
            longest: The greatest.
            trial: Returns whether the property holds.

        Returns:
            Whether the property is proved.
        """
        holds = result_or_none(trial)
        self.refuted = holds is False  # not if there was too little memory, which is None
        if holds:
            self.add(shortest, longest)
        return bool(holds)


def lengths_to_try(lengths: Iterable[int]) -> list[int]:
    """Return which lengths to test in a batch with the longest text: each at most twice the one before where it can be.

    If texts get other states from some length of padding on, one of these texts gets at least half of that padding.

    Args:
        lengths: The lengths of texts, at least two different ones.
    """
    *shorter, longest = sorted(set(lengths))
    upper_bounds = doubling_lengths(shorter[0], longest)
    longest_within_bounds = {max(length for length in shorter if length <= bound) for bound in upper_bounds}
    return sorted(longest_within_bounds)


def doubling_lengths(first: int, last: int) -> tuple[int, ...]:
    """Return lengths from one to another, each at most twice the one before, see `lengths_to_try`."""
    lengths = []
    while first < last:
        lengths.append(first)
        first *= 2
    return (*lengths, last)
