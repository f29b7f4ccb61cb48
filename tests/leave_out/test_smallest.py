"""Searches for small sets of parts, on answers that are a rule over the parts: no model runs."""

from itertools import combinations

import numpy as np
import pytest

from normxlogit.leave_out.outcomes import Answer
from normxlogit.leave_out.removable import Removable
from normxlogit.leave_out.search import search
from normxlogit.results.units.units import UnitScore


def searched(count, changes, *, singles=5, effect=len, among_all=True):
    """Search parts "p0", "p1", ... of falling scores, and count the removals.

    Args:
        count: How many parts there are.
        changes: Whether the removal of a set of parts changes the prediction.
        singles: How many parts are removed one at a time at first.
        effect: How much less is left of the answer without a set.
        among_all: As in `Removable`.
    """
    parts = [UnitScore(f"p{part}", (part,), -float(part)) for part in range(count)]
    units = Removable(parts, "part", "removed", singles=min(singles, count), among_all=among_all)
    running, removals = search(units), 0
    sets = next(running)
    while True:
        removals += len(sets)
        answers = [Answer(None, -float(effect(set(tokens))), changes(set(tokens))) for tokens in sets]
        try:
            sets = running.send(answers)
        except StopIteration as stop:
            return stop.value, removals


@pytest.mark.parametrize("count", [5, 7, 20])
def test_every_pair_that_changes_the_answer_together_is_found_beside_a_larger_set(count):
    """The search promises so of the twenty parts of the highest scores, and says how many removals that takes."""
    for pair in combinations(range(count), 2):

        def changes(tokens, pair=pair):
            return tokens.issuperset(pair) or tokens >= {0, 1, 2}

        verified, removals = searched(count, changes, effect=lambda tokens, pair=pair: len(tokens & {*pair}))
        assert set(verified.smallest.tokens) == {*pair}
        assert removals <= (1 + 1 + 5) + (5 + 3) + (20 + 29 + 20)  # the first ones, some put back, and pairs


@pytest.mark.parametrize("part", [0, 4, 5, 19])
def test_one_part_that_changes_the_answer_is_found_wherever_it_is_ranked(part):
    verified, _ = searched(20, lambda tokens: part in tokens)
    assert verified.smallest.tokens == (part,)


def test_what_is_found_changes_the_answer_and_no_part_of_it_can_be_put_back():
    rng = np.random.default_rng(0)
    for _ in range(200):
        count, size = int(rng.integers(7, 30)), int(rng.integers(3, 6))
        needed = {*rng.permutation(count)[:size].tolist()}
        weight = rng.random(count)  # without most of the needed parts
        enough = float(rng.random()) * sum(weight[list(needed)])

        def effect(tokens, needed=needed, weight=weight):
            return sum(weight[list(tokens & needed)])

        verified, removals = searched(count, lambda tokens, e=effect, t=enough: e(tokens) > t, effect=effect)
        found = set(verified.smallest.tokens)
        assert verified.smallest.changed
        assert effect(found) > enough
        assert all(effect(found - {part}) <= enough for part in found)
        assert removals < 100 + 3 * count


def test_fewer_parts_are_found_where_all_of_the_first_ones_do_not_do():
    """As where one more part brings the prediction back."""
    verified, _ = searched(9, lambda tokens: tokens >= {0, 1} and not tokens & {2, 3, 4}, among_all=False)
    assert not verified.together.changed
    assert verified.smallest.tokens == (0, 1)


def test_the_control_is_as_large_as_the_smallest_set_and_shares_no_part_with_it():
    for needed in ({7}, {0, 8}, {0, 1, 9}):
        verified, _ = searched(20, needed.issubset, effect=lambda tokens, n=needed: len(tokens & n))
        assert len(verified.control.tokens) == len(needed)
        assert not {*verified.control.tokens} & ({*verified.smallest.tokens} | {0, 1, 2, 3, 4})
    verified, _ = searched(20, lambda tokens: False)
    assert verified.smallest is None
    assert len(verified.control.tokens) == 5
