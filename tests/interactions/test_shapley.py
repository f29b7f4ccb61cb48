"""Shapley interactions from the values of all masks, and the regression where these are too many."""

import itertools
from math import factorial

import numpy as np
import pytest

pytest.importorskip("normxlogit.interactions", reason="the wing is not there")

from normxlogit import InputError
from normxlogit.interactions.explain import plan
from normxlogit.interactions.masks import all_masks, complementary_masks
from normxlogit.interactions.regression import PairModel
from normxlogit.interactions.result import k_shapley
from normxlogit.interactions.shapley import exact_effects


def interaction_by_the_formula(values, units: int, members: tuple[int, ...]) -> float:
    """Grabisch and Roubens (1999), the sum over all sets of other units as it is written."""
    others = [unit for unit in range(units) if unit not in members]
    total = 0.0
    for size in range(len(others) + 1):
        weight = factorial(units - size - len(members)) * factorial(size) / factorial(units - len(members) + 1)
        for some in itertools.combinations(others, size):
            for count in range(len(members) + 1):
                for more in itertools.combinations(members, count):
                    row = sum(2**unit for unit in (*some, *more))
                    total += weight * (-1) ** (len(members) - count) * values[row]
    return total


@pytest.mark.parametrize("units", [2, 3, 5])
def test_exact_effects_are_those_of_the_formula(units) -> None:
    values = np.random.default_rng(units).normal(size=2**units)
    effects = exact_effects(values)
    expected = [interaction_by_the_formula(values, units, (unit,)) for unit in range(units)]
    np.testing.assert_allclose(effects.single, expected)
    for pair in itertools.combinations(range(units), 2):
        assert effects.joint[pair] == pytest.approx(interaction_by_the_formula(values, units, pair))
        assert effects.joint[pair[::-1]] == effects.joint[pair]


def test_k_shapley_interactions_are_those_of_shapiq() -> None:
    shapiq = pytest.importorskip("shapiq", reason="pip install shapiq")
    units = 5
    values = np.random.default_rng(0).normal(size=2**units)

    def game(present):
        return values[np.asarray(present, int) @ 2 ** np.arange(units)]

    exact = shapiq.ExactComputer(n_players=units, game=game)
    interactions = exact(index="k-SII", order=2)
    effects = exact_effects(values)
    np.testing.assert_allclose(
        k_shapley(effects.single, effects.joint), [interactions[(unit,)] for unit in range(units)], atol=1e-10
    )
    for pair in itertools.combinations(range(units), 2):
        assert effects.joint[pair] == pytest.approx(interactions[pair], abs=1e-10)


def test_a_function_of_pairs_is_explained_whole_and_a_parity_of_three_not_at_all() -> None:
    signs = 2.0 * all_masks(4) - 1
    assert exact_effects(signs[:, 0] + 3 * signs[:, 1] * signs[:, 2]).r2 == pytest.approx(1)
    assert exact_effects(signs[:, 0] * signs[:, 1] * signs[:, 2]).r2 == pytest.approx(0)
    assert np.isnan(exact_effects(np.ones(16)).r2)


@pytest.mark.parametrize("units", [4, 12, 13, 40])
def test_masks_are_complementary_and_occur_once(units) -> None:
    masks = complementary_masks(units, 50)
    assert (masks[0::2] == ~masks[1::2]).all()
    assert len(np.unique(masks, axis=0)) == len(masks) == min(50, 2**units - 2)
    assert masks.any(1).all()
    assert not masks.all(1).any()


def planted(units: int, masks):
    """The values of a function of single units and of one pair, which the contributions do not tell."""
    single = np.linspace(-1, 1, units)
    return masks @ single + 4.0 * masks[:, 0] * masks[:, units - 1], single


def test_the_regression_finds_a_pair_and_says_how_far_it_explains() -> None:
    masks = complementary_masks(15, 64)
    values, contributions = planted(15, masks)
    model = PairModel(masks, values, contributions)
    effects = model.effects()
    pair = np.unravel_index(np.abs(effects.joint).argmax(), effects.joint.shape)
    assert set(map(int, pair)) == {0, 14}
    others = np.random.default_rng(3).random((500, 15)) < 0.5
    truth, _ = planted(15, others)
    share = 1 - np.square(truth - model.predict(others)).sum() / np.square(truth - truth.mean()).sum()
    assert share > 0.9
    assert model.r2 == pytest.approx(share, abs=0.1)


def test_nothing_explains_noise_and_the_regression_says_so() -> None:
    masks = complementary_masks(12, 64)
    random = np.random.default_rng(0)
    assert PairModel(masks, random.normal(size=64), random.normal(size=12)).r2 < 0.2


@pytest.mark.parametrize("contributions", [np.zeros(9), np.full(9, 1e-30), np.full(9, 1e30)])
def test_contributions_of_any_size_are_a_prior(contributions) -> None:
    masks = complementary_masks(9, 64)
    model = PairModel(masks, masks[:, 0] * 1e-6 - masks[:, 1] * 1e-6, contributions)
    assert model.r2 > 0.9
    constant = PairModel(masks, np.ones(64), contributions)
    assert np.isnan(constant.r2)
    np.testing.assert_allclose(constant.effects().joint, 0)


@pytest.mark.parametrize("budget", [20, 64, 1000])
def test_a_plan_is_within_its_budget(budget) -> None:
    planned = plan(30, budget, may_be_empty=True)
    assert planned.masks + 1 + 3 * planned.tested <= budget
    assert planned.tested >= 1


def test_few_units_whose_empty_input_has_no_answer_are_not_guessed() -> None:
    with pytest.raises(InputError, match="need 4 units"):
        plan(3, 64, may_be_empty=False)
