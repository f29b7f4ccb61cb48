"""Shapley interactions of order 2, exactly, from the values of all masks."""

from math import comb
from typing import NamedTuple

import numpy as np

from ..methods.perturbation import Floats
from .masks import all_masks


class Effects(NamedTuple):
    """The effects of M units on a value.

    Attributes:
        single: The effect of each unit, (M,): its Shapley value.
        joint: The joint effect of each two, (M, M), symmetric, zero on the diagonal: their Shapley interaction.
        r2: The share of the variance over masks that single and joint effects explain; NaN if the values are equal.
    """

    single: Floats
    joint: Floats
    r2: float


def exact_effects(values: Floats) -> Effects:
    """Return the effects of units from the values of all masks.

    The Shapley interaction of a set S of s units is the mean over sizes, and over the sets T of t other units of that
    size, of the joint difference sum_{L in S} (-1)^(s-|L|) v(T + L) (Grabisch and Roubens, 1999, definition 4); of one
    unit it is the Shapley value.

    Args:
        values: The value of each mask, (2^M,), in the order of `all_masks`.
    """
    units = len(values).bit_length() - 1  # M of 2^M
    single, joint = np.zeros(units), np.zeros((units, units))
    for first in range(units):
        difference = _difference(values, first)  # (2^(M-1),)
        single[first] = _mean_over_sizes(difference)
        for second in range(first + 1, units):
            place_of_second = second - 1  # among the units without the first
            joint[first, second] = _mean_over_sizes(_difference(difference, place_of_second))
    return Effects(single, joint + joint.T, explained_share(values))


def _difference(values: Floats, unit: int) -> Floats:
    """Return the value with a unit less that without it, (2^(M-1),), for each mask of the other units.

    Args:
        values: The value of each mask of M units, (2^M,), in the order of `all_masks`.
        unit: The place of the unit among these.
    """
    by_unit = values.reshape(-1, 2, 2**unit)  # the bits above the unit, its own, and those below
    return (by_unit[:, 1] - by_unit[:, 0]).reshape(-1)


def _mean_over_sizes(values: Floats) -> float:
    """Return the mean over sizes of the means over masks of that size, of the values of all masks, (2^M,)."""
    units = len(values).bit_length() - 1  # as in `exact_effects`
    sizes = all_masks(units).sum(1)  # (2^M,)
    masks_of_size = np.array([comb(units, size) for size in range(units + 1)])  # (M + 1,)
    weights = 1 / ((units + 1) * masks_of_size[sizes])  # (2^M,)
    return float(weights @ values)


def explained_share(values: Floats) -> float:
    """Return the share of the variance of all masks' values that functions of at most two units explain.

    The products of signs (-1 absent, 1 present) of the sets of units are orthogonal over all masks (Walsh functions),
    so each explains its squared coefficient.

    Args:
        values: The value of each mask, (2^M,), in the order of `all_masks`.
    """
    variance = float(values.var())
    if variance == 0:  # nothing to explain
        return float("nan")
    signs = 2.0 * all_masks(len(values).bit_length() - 1) - 1  # (2^M, M)
    singles = signs.T @ values / len(values)  # (M,)
    products = signs.T @ (signs * values[:, None]) / len(values)  # (M, M)
    pairs = np.triu(products, 1)  # each once, and not a unit with itself
    return float((np.square(singles).sum() + np.square(pairs).sum()) / variance)
