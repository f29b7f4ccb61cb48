"""Suggestions for misspelt names."""

from collections.abc import Iterable

LETTERS = 4
"""A name may have one wrong letter for each of this many."""

PREFIX = 3
"""Least letters of a prefix that matches a name."""


def nearest(name: str, names: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the names nearest to a misspelt one, the nearest first.

    These are the names at a small edit distance (Damerau, 1964, and Levenshtein, 1966: letters added, left out, changed
    or exchanged with their neighbour), and then those of which one is a prefix of the other.
    """
    typed = name.casefold().replace("_", "-")
    near = []
    for one in names:
        other = one.casefold().replace("_", "-")
        shorter, longer = sorted((typed, other), key=len)
        limit = max(1, len(longer) // LETTERS)
        # each letter that one has more is a change: a name of 100,000 letters is compared with none
        if len(longer) - len(shorter) <= limit and (distance := _distance(typed, other)) <= limit:
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
