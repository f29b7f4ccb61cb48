"""Surrogates: functions that predict a model's answer from which units are present, each from a number of passes."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ...errors import DataError, reason_of
from ...methods.perturbation import Booleans, Floats
from ..answers import UnitAnswers
from ..explain import plan
from ..masks import complementary_masks
from ..regression import PairModel

Predict = Callable[[Booleans], Floats]
"""From masks, (N, M), to the values that a surrogate predicts, (N,)."""

Surrogate = Callable[[UnitAnswers, int], Predict]
"""From the answers to an input and a number of passes to a fitted function."""

PAIRS = "pairs"


def surrogates(*, may_be_empty: bool = True) -> dict[str, Surrogate]:
    """Return the surrogates by their names; ProxySPEX if shapiq is installed, and lightgbm, which this needs.

    Args:
        may_be_empty: Whether there is an answer without any unit, which Archipelago starts from.
    """
    peers: dict[str, Surrogate] = {"single units": single_units}
    if may_be_empty:
        peers["Archipelago"] = archipelago
    if find_spec("shapiq") and find_spec("lightgbm"):
        peers["ProxySPEX"] = proxy_spex
    return peers


def pairs(unit_answers: UnitAnswers, budget: int) -> PairModel:
    """Fit the regression of `explainer.pairs`, for which the passes of the tests are left.

    Args:
        unit_answers: The answers to an input with some of its units.
        budget: The most passes.
    """
    units = len(unit_answers.contributions)
    # As if no mask could be empty: the plan is then for a regression, and never for all masks.
    present = complementary_masks(units, plan(units, budget, may_be_empty=False).masks)
    return PairModel(present, unit_answers.values(present), unit_answers.contributions)


def single_units(unit_answers: UnitAnswers, budget: int) -> Predict:
    """Fit the same regression without pairs, and without passes for tests."""
    present = complementary_masks(len(unit_answers.contributions), budget)
    return PairModel(present, unit_answers.values(present), unit_answers.contributions, most_paired=0).predict


def archipelago(unit_answers: UnitAnswers, budget: int) -> Predict:
    """Measure single and joint effects where all other units are present and where none is, and average both.

    So does Archipelago (Tsang et al., 2020, equation 6, before its square), with four answers to each pair in each
    context. A budget does not pay for all pairs: the pairs of the units with the largest contributions are measured.

    Args:
        unit_answers: The answers to an input with some of its units.
        budget: The most passes.
    """
    units = len(unit_answers.contributions)
    largest_first = np.argsort(-np.abs(unit_answers.contributions), kind="stable")
    # Of no unit, of each unit and of each pair an answer is asked in both contexts. What is left for pairs pays for
    # count * (count - 1) / 2 pairs of `count` units, with two passes each.
    passes_for_pairs = max(0, budget - 2 - 2 * units)
    paired_count = max(count for count in range(units + 1) if count * (count - 1) <= passes_for_pairs)
    paired_units = sorted(largest_first[:paired_count].tolist())
    sets = [(), *((unit,) for unit in range(units)), *combinations(paired_units, 2)]
    only = np.array([[unit in members for unit in range(units)] for members in sets])  # (S, M)
    value_of_only = dict(zip(sets, unit_answers.values(only), strict=True))
    value_without = dict(zip(sets, unit_answers.values(~only), strict=True))
    single, joint = np.zeros(units), np.zeros((units, units))
    for members in sets[1:]:
        alone = _difference(value_of_only, members)  # where no other unit is present
        among_all = _difference(value_without, members)  # where all others are, of leaving the members out
        if len(members) == 1:
            single[members] = (alone - among_all) / 2  # leaving a unit out has the opposite effect
        else:
            joint[members] = (alone + among_all) / 2
    # In the mean of all units and none, single effects cancel out, and joint ones add a quarter each, see `predict`.
    middle = (value_without[()] + value_of_only[()]) / 2 - joint.sum() / 4
    return QuadraticFunction(middle, single, joint).predict


def _difference(values: Mapping[tuple[int, ...], float], members: tuple[int, ...]) -> float:
    """Return what a set of one or two units changes, of two beyond what each does alone.

    Args:
        values: The values of sets of units.
        members: The set.
    """
    if len(members) == 1:
        return values[members] - values[()]
    first, second = members
    return values[members] - values[first,] - values[second,] + values[()]


class QuadraticFunction(NamedTuple):
    """A function of which units are present, with their effects alone and in pairs.

    Attributes:
        middle: Its mean over all masks.
        single: The effect of each unit, (M,).
        joint: The joint effect of each two, (M, M), of which the upper triangle counts.
    """

    middle: float
    single: Floats
    joint: Floats

    def predict(self, present: Booleans) -> Floats:
        """Return the values of masks, (N,), for masks (N, M)."""
        signs = 2.0 * present - 1  # (N, M)
        of_pairs = np.einsum("ni,ij,nj->n", signs, self.joint, signs) / 4  # (N,)
        return self.middle + signs @ self.single / 2 + of_pairs


def proxy_spex(unit_answers: UnitAnswers, budget: int) -> Predict:
    """Fit ProxySPEX by shapiq (Butler et al., 2025), with its own masks and settings, of all orders.

    Args:
        unit_answers: The answers to an input with some of its units.
        budget: The most passes.

    Raises:
        DataError: If shapiq cannot fit it to so few answers.
    """
    shapiq = import_module("shapiq")

    units = len(unit_answers.contributions)
    approximator = shapiq.ProxySPEX(n=units, index="FBII", max_order=units, random_state=0)
    try:
        effects = approximator.approximate(
            min(budget, 2**units), lambda masks: _values(unit_answers, np.array(masks, bool))
        )
    except IndexError as error:
        raise DataError(f"shapiq could not fit ProxySPEX to {budget} answers: {reason_of(error)}") from None

    def predict(present: Booleans) -> Floats:
        values = np.zeros(len(present))
        # An effect counts where all of its members are present; that of () always does.
        for members, place in effects.interaction_lookup.items():
            values += effects.values[place] * present[:, list(members)].all(1)
        return values

    return predict


def _values(unit_answers: UnitAnswers, masks: Booleans) -> Floats:
    """Return the values of masks, (N,); of a prompt of nothing, which has no answer, the mean of the others."""
    is_empty = np.zeros(len(masks), bool) if unit_answers.may_be_empty else ~masks.any(1)  # (N,)
    values = np.zeros(len(masks))
    values[~is_empty] = unit_answers.values(masks[~is_empty])
    values[is_empty] = values[~is_empty].mean()
    return values
