"""Which known names a misspelt one may stand for."""

from collections.abc import Iterable

__all__ = ["nearest"]

LETTERS = 4
"""A name may have one wrong letter for so many."""

PREFIX = 3
"""Least letters of a beginning that names what it begins."""


def nearest(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the known names that a misspelt one may stand for, the nearest first.

    These are the names at a small edit distance (Damerau, 1964, and Levenshtein, 1966: letters added, left out, changed
    or exchanged with their neighbour), and then those of which one is the beginning of the other.

    Args:
        name: What was typed.
        known: The names.
        most: How many at most.
    """
    typed = name.casefold().replace("_", "-")
    near = []
    for one in known:
        other = one.casefold().replace("_", "-")
        distance = _distance(typed, other)
        shorter, longer = sorted((typed, other), key=len)
        if distance <= max(1, len(longer) // LETTERS):
            near.append((distance, one))
        elif len(shorter) >= PREFIX and longer.startswith(shorter):
            near.append((len(longer), one))  # behind the misspelt ones, short names first
    return [one for _, one in sorted(near)[:most]]


def _distance(a: str, b: str) -> int:
    """Return how many letters are added, left out, changed or exchanged with their neighbour between two words."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        last, before, row = before, row, [i]
        for j, other in enumerate(b, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other)))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]
