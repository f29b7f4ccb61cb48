"""Small sets of parts whose removal changes the prediction, found by few removals.

Each search is a coroutine: it yields sets of tokens to remove, and receives the model's answers without each.
"""

from collections.abc import Generator, Sequence
from itertools import combinations, product
from typing import NamedTuple

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


class ChangingSet(NamedTuple):
    """Parts whose removal was measured."""

    members: list[int]  # indices of parts
    answer: Answer  # without them


SetSearch = Generator[list[Tokens], list[Answer], ChangingSet | None]
"""A search that returns a set of parts with the answer without it; None if it found none."""


class _Beginning(NamedTuple):
    """A beginning of a ranking whose removal changes the prediction."""

    unchanged: int  # how many of the first parts are known, or expected, not to change it
    length: int  # how many of the first parts change it
    answer: Answer  # without these


def tokens_of(parts: Sequence[UnitScore], members: Sequence[int]) -> Tokens:
    """Return the tokens of some parts, in their order."""
    return tuple(sorted({token for member in members for token in parts[member].tokens}))


def changing_set(
    parts: Sequence[UnitScore],
    original: Answer,
    single: dict[int, Answer],
    together: Answer,
    *,
    among_all: bool,
) -> SetSearch:
    """Find a small set of parts whose removal changes the prediction: one, a beginning of the ranking, or a pair.

    Args:
        parts: The parts, of the highest scores first.
        original: The answer to the whole input.
        single: The answer without each of the first parts; those without further parts are added as they are measured.
        together: The answer without all of the first parts.
        among_all: Whether the others are tried as well where the first ones do not do.
    """
    by_effect = sorted(single, key=lambda member: single[member].value)
    for member in by_effect:
        if single[member].outcome != original.outcome:
            return ChangingSet([member], single[member])
    if original.outcome is None:  # predictions are values
        return None
    untested = range(len(single), len(parts)) if among_all else ()
    found = yield from _irreducible_set(parts, [*by_effect, *untested], original, len(single), together)
    if among_all and (found is None or len(found.members) > 2):
        pair = yield from _pair(parts, original, single)
        return pair or found
    return found


def control_set(parts: Sequence[UnitScore], first: int, smallest: Sequence[int] | None) -> SetSearch:
    """Remove as many other parts as the smallest set has, or as the first ones are, drawn at random.

    Args:
        parts: The parts.
        first: How many parts were removed one at a time.
        smallest: The smallest set that was found; None without one.
    """
    excluded = smallest or ()
    size = first if smallest is None else len(smallest)
    others = [member for member in range(first, len(parts)) if member not in excluded]
    words = [member for member in others if _is_word(parts[member])]  # punctuation is a weak control
    if len(words) < size:
        return None
    members = [words[place] for place in np.random.default_rng(0).permutation(len(words))[:size]]
    (answer,) = yield [tokens_of(parts, members)]
    return ChangingSet(members, answer)


def _is_word(part: UnitScore) -> bool:
    return any(map(str.isalnum, part.text))


def _irreducible_set(
    parts: Sequence[UnitScore], ranked: Sequence[int], original: Answer, tested: int, together: Answer
) -> SetSearch:
    """Find a set of parts whose removal changes the prediction, and no part of which can be put back.

    The shortest beginning of a ranking is found by bisection, as if longer ones changed the prediction too. Then the
    parts that can be put back are ranked by what is left of the answer when they are, and the shortest beginning is
    found again.

    Args:
        parts: The parts.
        ranked: Indices of parts, none of which changes the prediction alone.
        original: The answer to the whole input.
        tested: How many of the first ones were removed together.
        together: The answer without these.
    """
    beginning = yield from _changing_beginning(parts, ranked, original, tested, together)
    while beginning is not None:
        beginning = yield from _shortest_beginning(parts, ranked, original, beginning)
        members = ranked[: beginning.length]
        spared = yield from _spared(parts, members, original)
        if not spared:
            return ChangingSet(list(members), beginning.answer)
        needed = [member for member in members if member not in spared]
        put_back_last = sorted(spared, key=lambda member: -spared[member].value)
        ranked = [*needed, *put_back_last]
        beginning = _Beginning(len(needed) - 1, len(members) - 1, spared[ranked[-1]])
    return None


def _changing_beginning(
    parts: Sequence[UnitScore], ranked: Sequence[int], original: Answer, tested: int, together: Answer
) -> Generator[list[Tokens], list[Answer], _Beginning | None]:
    """Find a beginning of a ranking that changes the prediction: the tested one, a shorter one, or a longer one."""
    if together.outcome != original.outcome:
        return _Beginning(1, tested, together)
    shorter = range(2, tested)  # fewer may change the prediction even if all do not
    answers = (yield [tokens_of(parts, ranked[:count]) for count in shorter]) if shorter else []
    for count, answer in zip(shorter, answers, strict=True):
        if answer.outcome != original.outcome:
            return _Beginning(count - 1, count, answer)
    count = tested
    while count < len(ranked):
        unchanged, count = count, min(2 * count, len(ranked))
        (answer,) = yield [tokens_of(parts, ranked[:count])]
        if answer.outcome != original.outcome:
            return _Beginning(unchanged, count, answer)
    return None


def _shortest_beginning(
    parts: Sequence[UnitScore], ranked: Sequence[int], original: Answer, beginning: _Beginning
) -> Generator[list[Tokens], list[Answer], _Beginning]:
    """Bisect between a length that does not change the prediction and one that does."""
    unchanged, count, answer = beginning
    while count - unchanged > 1:
        middle = (unchanged + count) // 2
        (answer_without,) = yield [tokens_of(parts, ranked[:middle])]
        if answer_without.outcome == original.outcome:
            unchanged = middle
        else:
            count, answer = middle, answer_without
    return _Beginning(unchanged, count, answer)


def _spared(
    parts: Sequence[UnitScore], members: Sequence[int], original: Answer
) -> Generator[list[Tokens], list[Answer], dict[int, Answer]]:
    """Put each part of a set back by itself; return those without which the rest still changes the prediction."""
    answers = yield [tokens_of(parts, [member for member in members if member != back]) for back in members]
    return {back: answer for back, answer in zip(members, answers, strict=True) if answer.outcome != original.outcome}


def _pair(parts: Sequence[UnitScore], original: Answer, single: dict[int, Answer]) -> SetSearch:
    """Find two of the first parts, or one, whose removal changes the prediction.

    What two parts do together need not be what they do alone, so it is measured: groups of parts are removed, such that
    every two are together in one of the groups (at most 29 of up to five). Then the pairs are removed whose group
    leaves least of the answer, at most `MOST_PAIRS`.
    """
    count = min(MOST_PAIRED, len(parts))
    untested = [member for member in range(count) if member not in single]
    groups = _groups_with_each_pair(count)
    answers = yield [tokens_of(parts, members) for members in [*([member] for member in untested), *groups]]
    single |= dict(zip(untested, answers, strict=False))
    pairs = _ranked_pairs(groups, answers[len(untested) :])
    pair_answers = yield [tokens_of(parts, pair) for pair in pairs]
    candidates = [ChangingSet([member], single[member]) for member in untested]
    candidates += [ChangingSet([*pair], answer) for pair, answer in zip(pairs, pair_answers, strict=True)]
    return next((found for found in candidates if found.answer.outcome != original.outcome), None)


def _ranked_pairs(groups: Sequence[list[int]], answers: Sequence[Answer]) -> list[tuple[int, int]]:
    """Return the pairs to be removed: those of the groups that leave least of the answer."""
    by_group = sorted(zip((answer.value for answer in answers), groups, strict=True))
    pairs = [pair for _, group in by_group for pair in combinations(group, 2)]
    return pairs[:MOST_PAIRS]


def _groups_with_each_pair(count: int) -> list[list[int]]:
    """Return groups of at most `SIDE` of some parts, such that every two are together in exactly one.

    They are the lines of the affine plane over the integers modulo `SIDE`, whose points are the parts.
    """
    lines = [[part for part in range(count) if part % SIDE == column] for column in range(SIDE)]
    for slope, shift in product(range(SIDE), repeat=2):
        lines.append([part for part in range(count) if part // SIDE == (slope * (part % SIDE) + shift) % SIDE])
    return [line for line in lines if len(line) > 1]
