"""Small sets of parts whose removal changes the prediction, found by few removals.

Each search is a coroutine: it yields sets of tokens to remove, and receives the model's answers without each.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from ..results.units.units import UnitScore
from .outcomes import Answer
from .removal import Tokens

MOST_PAIRED = 20
"""Parts of the highest scores among which a pair is searched for, in at most 20 + 29 + 20 removals."""

MOST_PAIRS = 20
"""Most pairs that are removed."""

SIDE = 5
"""Most parts in a group that is removed together; a prime, whose square is at least `MOST_PAIRED`."""

UPRIGHT = -1
"""Stands for the slope of lines along a column, which have none."""

Found = TypeVar("Found")

Asking = Generator[list[Tokens], list[Answer], Found]
"""A coroutine that yields sets of tokens, receives the answers without each, and returns what it found."""


class ChangingSet(NamedTuple):
    """Parts whose removal was measured."""

    members: list[int]  # indices of parts
    answer: Answer  # without them


class _Beginning(NamedTuple):
    """A beginning of a ranking whose removal changes the prediction."""

    unchanged: int  # a number of the first parts that is known, or expected, not to change it
    length: int  # a larger number of the first parts, which changes it
    answer: Answer  # without these


def tokens_of(parts: Sequence[UnitScore], members: Sequence[int]) -> Tokens:
    """Return the tokens of some parts, in their order.

    Args:
        parts: The parts.
        members: Indices of some of them.
    """
    return tuple(sorted({token for member in members for token in parts[member].tokens}))


@dataclass(frozen=True)
class SetSearch:
    """Searches among the parts of an input."""

    parts: Sequence[UnitScore]  # those of the highest scores first
    original: Answer  # the answer to the whole input

    def changing_set(
        self, single: dict[int, Answer], together: Answer, *, among_all: bool
    ) -> Asking[ChangingSet | None]:
        """Find a small set of parts whose removal changes the prediction: one, a beginning of the ranking, or a pair.

        Args:
            single: The answer without each of the first parts; those without further parts are added as they are
                measured.
            together: The answer without all of the first parts.
            among_all: Whether the others are tried as well where the first ones do not do. Then a pair is looked for,
                too, as the set of a ranking may be much larger.

        Returns:
            None if no set was found, or predictions are values.
        """
        by_effect = sorted(single, key=lambda member: single[member].value)  # what leaves least of the answer first
        for member in by_effect:
            if self._is_changed(single[member]):
                return ChangingSet([member], single[member])
        if self.original.outcome is None:  # predictions are values
            return None
        untested = range(len(single), len(self.parts)) if among_all else ()
        smallest = yield from self._irreducible_set([*by_effect, *untested], len(single), together)
        is_pair_smaller = smallest is None or len(smallest.members) > 2
        if among_all and is_pair_smaller:  # a pair need not be at the beginning of the ranking
            pair = yield from self._pair(single)
            return pair or smallest
        return smallest

    def control_set(self, first: int, smallest: ChangingSet | None) -> Asking[ChangingSet | None]:
        """Remove as many other parts as the smallest set has, or as the first ones are, drawn at random.

        Args:
            first: How many parts were removed one at a time.
            smallest: The smallest set that was found; None without one.

        Returns:
            None if there are too few others.
        """
        excluded = list(range(first)) if smallest is None else smallest.members
        # Those that were removed one at a time have the highest scores, and are no control either.
        others = [member for member in range(first, len(self.parts)) if member not in excluded]
        # Punctuation is a weak control.
        words = [member for member in others if any(map(str.isalnum, self.parts[member].text))]
        if len(words) < len(excluded):
            return None
        # With one seed for all, so that the same call has the same control.
        drawn = np.random.default_rng(0).permutation(len(words))[: len(excluded)]
        (control,) = yield from self._without([[words[index] for index in drawn]])
        return control

    def _is_changed(self, answer: Answer) -> bool:
        """Return whether an answer is another than that to the whole input."""
        return answer.outcome != self.original.outcome

    def _without(self, sets: Sequence[Sequence[int]]) -> Asking[list[ChangingSet]]:
        """Remove sets of parts; return each with the answer without it."""
        answers = yield [tokens_of(self.parts, members) for members in sets]
        return [ChangingSet([*members], answer) for members, answer in zip(sets, answers, strict=True)]

    def _irreducible_set(self, ranked: Sequence[int], tested: int, together: Answer) -> Asking[ChangingSet | None]:
        """Find a set of parts whose removal changes the prediction, and no part of which can be put back.

        The shortest beginning of a ranking is found by bisection, as if longer ones changed the prediction too. Then
        the parts that can be put back are ranked by what is left of the answer when they are, and the shortest
        beginning is found again.

        Args:
            ranked: Indices of parts. None of the first ones changes the prediction alone; the others were not removed.
            tested: How many first ones there are, which were removed together.
            together: The answer without these.
        """
        beginning = yield from self._changing_beginning(ranked, tested, together)
        while beginning is not None:
            beginning = yield from self._shortest_beginning(ranked, beginning)
            members = ranked[: beginning.length]
            spared = yield from self._spared(members)
            if not spared:
                return ChangingSet(list(members), beginning.answer)
            needed = [member for member in members if member not in spared]
            # The last one is put back first: with it, least of the answer is left.
            by_what_is_left = sorted(spared, key=lambda member: -spared[member].value)
            ranked = [*needed, *by_what_is_left]
            # All members but the last one are known to change it; fewer than the needed ones are expected not to.
            beginning = _Beginning(len(needed) - 1, len(members) - 1, spared[ranked[-1]])
        return None

    def _changing_beginning(self, ranked: Sequence[int], tested: int, together: Answer) -> Asking[_Beginning | None]:
        """Find a beginning of a ranking that changes the prediction: the tested one, a shorter one, or a longer one."""
        if self._is_changed(together):
            # None of the first parts changes it alone.
            return _Beginning(1, tested, together)
        shorter = [ranked[:count] for count in range(2, tested)]  # fewer may change the prediction even if all do not
        measured = (yield from self._without(shorter)) if shorter else []
        for members, answer in measured:
            if self._is_changed(answer):
                count = len(members)
                # The beginnings were measured by their length: the one before does not change it.
                return _Beginning(count - 1, count, answer)
        count = tested
        while count < len(ranked):
            unchanged, count = count, min(2 * count, len(ranked))
            (longer,) = yield from self._without([ranked[:count]])
            if self._is_changed(longer.answer):
                return _Beginning(unchanged, count, longer.answer)
        return None

    def _shortest_beginning(self, ranked: Sequence[int], beginning: _Beginning) -> Asking[_Beginning]:
        """Bisect between a length that does not change the prediction and one that does."""
        unchanged, count, answer = beginning
        while count - unchanged > 1:
            middle = (unchanged + count) // 2
            (shorter,) = yield from self._without([ranked[:middle]])
            if self._is_changed(shorter.answer):
                count, answer = middle, shorter.answer
            else:
                unchanged = middle
        return _Beginning(unchanged, count, answer)

    def _spared(self, members: Sequence[int]) -> Asking[dict[int, Answer]]:
        """Put each part of a set back by itself; return those without which the rest still changes the prediction."""
        sets = [[member for member in members if member != put_back] for put_back in members]
        rests = yield from self._without(sets)
        answers = {put_back: rest.answer for put_back, rest in zip(members, rests, strict=True)}
        return {put_back: answer for put_back, answer in answers.items() if self._is_changed(answer)}

    def _pair(self, single: dict[int, Answer]) -> Asking[ChangingSet | None]:
        """Find two of the first parts, or one, whose removal changes the prediction.

        What two parts do together need not be what they do alone, so it is measured: groups of parts are removed, such
        that every two are together in one of the groups (at most 29 of up to five). Then the pairs are removed whose
        group leaves least of the answer, at most `MOST_PAIRS`.

        Args:
            single: The answer without each of the parts that were removed alone, to which those without further parts
                are added.
        """
        count = min(MOST_PAIRED, len(self.parts))
        untested = [[member] for member in range(count) if member not in single]
        measured = yield from self._without([*untested, *_groups_with_each_pair(count)])
        alone, groups = measured[: len(untested)], measured[len(untested) :]
        single |= {removed.members[0]: removed.answer for removed in alone}
        pairs = yield from self._without(_ranked_pairs(groups))
        return next((removed for removed in (*alone, *pairs) if self._is_changed(removed.answer)), None)


def _ranked_pairs(groups: Sequence[ChangingSet]) -> list[tuple[int, int]]:
    """Return the pairs to be removed: those of the groups that leave least of the answer."""
    by_effect = sorted(groups, key=lambda group: (group.answer.value, group.members))
    return [pair for group in by_effect for pair in combinations(group.members, 2)][:MOST_PAIRS]


def _groups_with_each_pair(count: int) -> list[list[int]]:
    """Return groups of at most `SIDE` of some parts, such that every two are together in exactly one.

    They are the lines of the affine plane over the integers modulo `SIDE`, whose points are the parts: part p is in row
    p // `SIDE` and column p % `SIDE`.

    Args:
        count: How many parts there are, at most `SIDE` squared.
    """
    lines: dict[tuple[int, int], list[int]] = {}  # by their slope, and the row in which they cross column 0
    for part in range(count):
        row, column = divmod(part, SIDE)
        lines.setdefault((UPRIGHT, column), []).append(part)
        for slope in range(SIDE):
            lines.setdefault((slope, (row - slope * column) % SIDE), []).append(part)
    return [lines[line] for line in sorted(lines) if len(lines[line]) > 1]
