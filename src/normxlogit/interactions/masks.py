"""Masks: which units of an input are present when the model is asked."""

from typing import Any

import numpy as np

from ..methods.perturbation import Booleans, random_subsets

MOST_EXACT = 12
"""Most units of which all masks can be asked."""

SEED = 0  # the same masks in every call


def all_masks(units: int) -> Booleans:
    """Return every mask of M units, (2^M, M); in row r unit i is present if bit i of r is set.

    Args:
        units: How many units there are, M.
    """
    rows: Any = np.arange(2**units)[:, None]  # (2^M, 1)
    return np.asarray(rows >> np.arange(units) & 1, bool)


def complementary_masks(units: int, most: int) -> Booleans:
    """Return random masks in complementary pairs, without the whole input and the empty one, (N, M).

    Where one mask of a pair has a unit, the other has not, so that every unit is present in half of the masks.

    Args:
        units: How many units there are, M.
        most: The largest N.

    Returns:
        The masks; rows 0 and 1 are a pair, then rows 2 and 3. No mask occurs twice.
    """
    if units <= MOST_EXACT:
        # The masks without the last unit, so that none is another's complement; the first one is the empty input.
        halves = all_masks(units)[1 : 2 ** (units - 1)]
        halves = np.random.default_rng(SEED).permutation(halves)
    else:
        halves = np.unique(random_subsets(units - 1, most, SEED), axis=0)  # (N', M - 1), which it sorts: shuffled again
        halves = np.random.default_rng(SEED).permutation(halves)
        halves = np.pad(halves, ((0, 0), (0, 1)))  # without the last unit, likewise
        halves = halves[halves.any(1)]  # not the empty input, whose complement is the whole one
    halves = halves[: most // 2]  # (N / 2, M)
    return np.stack([halves, ~halves], 1).reshape(-1, units)
