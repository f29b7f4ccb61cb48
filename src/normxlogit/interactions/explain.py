"""From the answers to an input with some of its units to the effects of pairs, and the test of the largest."""

from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..inputs.texts import numbered
from ..leave_out.outcomes import Answer
from ..leave_out.removal import TextRemoval
from ..leave_out.search import run_searches
from ..methods.perturbation import Floats
from .answers import UnitAnswers
from .masks import MOST_EXACT, all_masks, complementary_masks
from .regression import PairModel
from .result import Pair, Pairs, kind_of, largest_pairs
from .shapley import Effects, exact_effects

LEAST_BUDGET, MOST_BUDGET = 20, 1024
"""Fewest passes, and most where they are not all masks: a regression takes the inverse of a matrix of their number."""

LEAST_UNITS = 4
"""Fewest units of a regression: of three there are six masks and as many effects."""

MOST_TESTED = 4
"""Most pairs that are tested."""

SHARE_OF_TESTS = 4
"""Tests may take this part of the budget: a quarter."""

PASSES_OF_TEST = 3
"""Without one, without the other, without both."""

LEAST_EFFECT = 0.5
"""A pair is shown if its joint effect, both ways, is at least this share of the standard deviation of all answers."""


class Plan(NamedTuple):
    """How passes are used.

    Attributes:
        exact: Whether all masks are asked.
        masks: How many masks are asked at most.
        tested: How many pairs are tested.
    """

    exact: bool
    masks: int
    tested: int


def plan(units: int, budget: int, *, may_be_empty: bool) -> Plan:
    """Return how a budget of passes is used: all masks where they are no more, otherwise most for the regression.

    Args:
        units: How many units there are.
        budget: The most passes.
        may_be_empty: Whether there is an answer without any unit.

    Raises:
        InputError: If there are too few units, or the budget is too small or too large.
    """
    if units < 2:
        raise InputError(f"a pair needs two units, and the input has {units} that can be left out")
    # All masks have the empty input among them.
    if may_be_empty and units <= MOST_EXACT and 2**units <= budget:
        return Plan(exact=True, masks=2**units, tested=MOST_TESTED)
    if not LEAST_BUDGET <= budget <= MOST_BUDGET:
        raise InputError(
            f"budget must be from {LEAST_BUDGET} to {MOST_BUDGET:,} passes, or all masks of up to {MOST_EXACT} units, "
            f"not {budget}: the input has {units} units"
        )
    if units < LEAST_UNITS:
        raise InputError(
            f"the input has {units} units, and no answer without all of them: pairs need {LEAST_UNITS} units then"
        )
    # The pass of the whole input, which is no mask of the regression, counts as one of the tests. With the least
    # budget one pair is tested.
    tested = min(MOST_TESTED, (budget // SHARE_OF_TESTS - 1) // PASSES_OF_TEST)
    return Plan(exact=False, masks=budget - 1 - PASSES_OF_TEST * tested, tested=tested)


def explain_pairs(unit_answers: UnitAnswers, budget: int) -> Pairs:
    """Explain an input by its units and their pairs.

    Args:
        unit_answers: The answers to the input with some of its units.
        budget: The most passes.

    Raises:
        InputError: If there are no two units, or the budget is too small or too large.
    """
    parts = unit_answers.removable.parts
    planned = plan(len(parts), budget, may_be_empty=unit_answers.may_be_empty)
    present = all_masks(len(parts)) if planned.exact else complementary_masks(len(parts), planned.masks)
    values = unit_answers.values(present)  # (N,)
    effects = (
        exact_effects(values) if planned.exact else PairModel(present, values, unit_answers.contributions).effects()
    )
    tested = tested_pairs(unit_answers, effects, planned.tested)
    confirmed = tuple(pair for pair in tested if is_confirmed(pair, values))
    return Pairs(
        attribution=unit_answers.attribution,
        units=tuple(part.text for part in parts),
        unit_tokens=tuple(part.tokens for part in parts),
        unit=unit_answers.removable.unit,
        removed_by=unit_answers.removable.removed_by,
        quantity=unit_answers.quantity,
        single=effects.single.astype(np.float32),
        joint=effects.joint.astype(np.float32),
        r2=effects.r2,
        exact=planned.exact,
        passes=len(unit_answers.removed_sets),  # those of the tests, too, which have run by now
        pairs=confirmed,
        rejected=len(tested) - len(confirmed),
    )


def tested_pairs(unit_answers: UnitAnswers, effects: Effects, count: int) -> list[Pair]:
    """Test the pairs of the largest joint effects: leave out one unit, the other, and both.

    Args:
        unit_answers: The answers to the input with some of its units.
        effects: The effects of the units.
        count: How many pairs are tested at most.

    Returns:
        The pairs, that of the largest joint effect first.
    """
    pairs = largest_pairs(effects.joint, count)
    removable = unit_answers.removable
    names = numbered(part.text for part in removable.parts)
    parts = [part._replace(text=name) for part, name in zip(removable.parts, names, strict=True)]
    # The two units of a pair are all parts of their verification: each is left out alone, and both together.
    verification = removable._replace(singles=2, named=True, all_together=True)
    removables = [verification._replace(parts=[parts[unit] for unit in pair]) for pair in pairs]

    def answers(removals: list[TextRemoval]) -> list[Answer]:
        """Return the answers without tokens; `run_searches` takes pairs for texts, and all are of the one input."""
        return unit_answers.without([removal.tokens for removal in removals])

    results = run_searches([unit_answers.attribution] * len(pairs), removables, answers)
    tested = []
    for pair, result in zip(pairs, results, strict=True):
        if result.verified is not None:  # for the type: two parts can always be removed together
            tested_pair = Pair(
                units=pair,
                joint=float(effects.joint[pair]),
                tested=measured_difference(unit_answers, pair),
                kind=kind_of(result.verified),
                verified=result.verified,
            )
            tested.append(tested_pair)
    return tested


def measured_difference(unit_answers: UnitAnswers, pair: tuple[int, int]) -> float:
    """Return the joint effect of two units in the whole input: what they do together beyond what each does alone."""
    present = np.ones((4, len(unit_answers.removable.parts)), bool)
    # Row 0 is the whole input; rows 1 and 3 lack the first unit, 2 and 3 the second.
    present[[1, 3], pair[0]] = False
    present[[2, 3], pair[1]] = False
    whole, without_first, without_second, without_both = unit_answers.values(present).tolist()
    return float(whole - without_first - without_second + without_both)


def is_confirmed(pair: Pair, values: Floats) -> bool:
    """Return whether the test of a pair agrees with its joint effect, and both are large among the answers.

    Args:
        pair: The pair.
        values: The values of masks, (N,).
    """
    agrees = pair.joint * pair.tested > 0  # in sign
    return agrees and min(abs(pair.joint), abs(pair.tested)) >= LEAST_EFFECT * float(values.std())
