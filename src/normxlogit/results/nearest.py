"""Suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches

CLOSE = 0.75
"""Least share of letters that a misspelt name has in common with the one that was meant, in their order."""

PREFIX = 3
"""Least letters of a prefix that matches a name."""


def nearest(name: str, names: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the names most like a misspelt one, then those of which one is a prefix of the other, short ones first."""
    typed = _spelled(name)
    spelled = {_spelled(candidate): candidate for candidate in names}
    near = get_close_matches(typed, spelled, most, CLOSE)
    longer = [
        candidate
        for candidate in spelled
        if min(len(candidate), len(typed)) >= PREFIX and candidate[: len(typed)] == typed[: len(candidate)]
    ]
    return [spelled[candidate] for candidate in dict.fromkeys([*near, *sorted(longer, key=len)])][:most]


def _spelled(name: str) -> str:
    return name.casefold().replace("_", "-")
