"""A regression of answers on which units are present, alone and in pairs, with the contributions as its prior.

It is a ridge regression, or the posterior mean of a linear model with Gaussian priors (Hoerl and Kennard, 1970;
Rasmussen and Williams, 2006, section 2.1): answers are a constant, the contributions times a scale, a weight for each
unit and one for each pair of units. Weights are expected to be larger where contributions are. How large they are
expected to be is chosen by cross-validation.
"""

from collections.abc import Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..methods.perturbation import Booleans, Floats
from .shapley import Effects

Indices = npt.NDArray[np.int64]

SINGLE_VARIANCES = (0.01, 0.1, 1.0)
"""Prior variances of a unit's weight, in variances of the noise."""

PAIR_VARIANCES = (0.03, 0.3, 3.0)
"""Prior variances of the weights of all pairs of one unit together, in variances of the noise."""

FOCUS = (0, 1, 2)
"""How much more weight is expected of pairs of large contributions: their product to this power; 0 for none."""

WIDE = 1e4
"""The prior variance of the constant and of the contributions' scale, which are not held back."""

LEAST_STRENGTH = 0.2
"""What is added to each contribution, as a share of their mean: units without one have effects, too."""

MOST_PAIRED = 100
"""Units of the largest contributions, whose pairs have weights."""

FOLDS = 8
"""Parts of the masks, each of which is kept aside once."""


class Settings(NamedTuple):
    """What the prior variances of the weights depend on; see `Columns.variances`."""

    single: float  # one of `SINGLE_VARIANCES`
    pair: float  # one of `PAIR_VARIANCES`
    focus: int  # one of `FOCUS`


GRID = tuple(Settings(*values) for values in product(SINGLE_VARIANCES, PAIR_VARIANCES, FOCUS))


class Columns:
    """The columns of the regression: a constant, the sum of contributions, each unit, each pair of units.

    Args:
        contributions: What each unit contributes to the answer, (M,).
        most_paired: The pairs of so many units have columns, those of the largest contributions.

    Attributes:
        contributions: The contributions over the sum of their sizes, (M,).
        strengths: How much weight is expected of each unit, from the size of its contribution, (M,); their mean is 1.
        pairs: The units of each pair that has a column, (P, 2).
    """

    def __init__(self, contributions: Floats, most_paired: int = MOST_PAIRED) -> None:
        total = float(np.abs(contributions).sum()) or 1.0  # where all are 0, they stay 0
        self.contributions: Floats = contributions / total  # (M,)
        relative_sizes = np.abs(contributions) / total * len(contributions)  # (M,), of mean 1, or all 0
        strengths = relative_sizes + LEAST_STRENGTH
        self.strengths: Floats = strengths / strengths.mean()  # (M,), of mean 1
        # In the order of the units, so that the first of a pair is the earlier one.
        paired = np.sort(np.argsort(-self.strengths, kind="stable")[:most_paired]).tolist()
        self.pairs: Indices = np.array(list(combinations(paired, 2)), int).reshape(-1, 2)  # (P, 2)

    def of(self, present: Booleans) -> Floats:
        """Return the columns of masks, (N, 2 + M + P), for masks (N, M); a unit is 1 if present and -1 if not."""
        signs: Floats = np.where(present, 1.0, -1.0)  # (N, M)
        first, second = self.pairs.T  # (P,) each
        constant = np.ones((len(present), 1))
        by_contributions = (signs @ self.contributions)[:, None]  # (N, 1)
        products = signs[:, first] * signs[:, second]  # (N, P)
        return np.concatenate([constant, by_contributions, signs, products], axis=1)

    def variances(self, settings: Settings) -> Floats:
        """Return the prior variance of each column's weight, (2 + M + P,), in the order of `of`.

        A unit's is larger the more it contributes, see `LEAST_STRENGTH`; a pair's the more both of its units do.
        """
        of_units = settings.single * self.strengths  # (M,)
        # A unit has M - 1 pairs, and each pair counts for two units.
        share_of_pair = 2 / max(1, len(self.strengths) - 1)
        products = self.strengths[self.pairs].prod(1) ** settings.focus  # (P,)
        mean_product = products.mean() if len(products) else 1.0
        of_pairs = settings.pair * share_of_pair * products / mean_product  # (P,)
        return np.concatenate([[WIDE, WIDE], of_units, of_pairs])


class PairModel:
    """The regression, fitted to the values of masks.

    Args:
        present: Masks in complementary pairs, (N, M), see `complementary_masks`.
        values: The value of each, (N,).
        contributions: What each unit contributes to the answer, (M,).
        most_paired: As in `Columns`; with 0 the regression is of single units.

    Attributes:
        columns: The columns, C of them.
        mean: The mean of the values, which the weights explain the differences from.
        settings: The settings of least error in cross-validation.
        weights: The weight of each column, (C,), in units of the values.
        r2: R² on masks that were kept aside; NaN if the values are equal.
    """

    def __init__(
        self, present: Booleans, values: Floats, contributions: Floats, most_paired: int = MOST_PAIRED
    ) -> None:
        self.columns = Columns(contributions, most_paired)
        self.mean = float(values.mean())
        scale = float(values.std()) or 1.0  # of equal values all weights are 0
        standardised = (values - self.mean) / scale  # (N,)
        matrix = self.columns.of(present)  # (N, C)
        variances = [self.columns.variances(settings) for settings in GRID]  # (C,) each
        covariances = [(matrix * variance) @ matrix.T for variance in variances]  # (N, N) each
        best = _best_fit(covariances, standardised)
        self.settings = GRID[best.settings]
        self.weights: Floats = scale * variances[best.settings] * (matrix.T @ best.dual)  # (C,)
        self.r2 = _r2_kept_aside(covariances, standardised)

    def predict(self, present: Booleans) -> Floats:
        """Return the value that the regression gives to masks, (N,)."""
        return self.mean + self.columns.of(present) @ self.weights

    def effects(self) -> Effects:
        """Return the effects of units and pairs: the Shapley values and interactions of the fitted function.

        Of a function of at most two units with signs of -1 and 1 they are twice, and four times, the weights.
        """
        # In the order of columns, see `Columns.of`: weight 0 is the constant's, 1 that of the contributions' sum.
        units = len(self.columns.contributions)
        single = 2 * (self.weights[2 : 2 + units] + self.weights[1] * self.columns.contributions)  # (M,)
        joint = np.zeros((units, units))
        first, second = self.columns.pairs.T
        joint[first, second] = joint[second, first] = 4 * self.weights[2 + units :]
        return Effects(single, joint, self.r2)


class _Fit(NamedTuple):
    """A fit with one of several settings."""

    error: float  # the sum of squared errors in cross-validation
    settings: int  # their index in `GRID`
    dual: Floats  # the weight of each mask, (N,): a prediction is its covariances with the masks, times these


def _best_fit(covariances: Sequence[Floats], values: Floats) -> _Fit:
    """Return the fit with the settings of the least error in cross-validation.

    Each complementary pair of masks is left out once. Its errors follow from one inverse: with A the inverse of the
    covariance of values, they solve A_BB e = (A v)_B for the rows B of the pair (Rasmussen and Williams, 2006, section
    5.4.2, for several rows).

    Args:
        covariances: The covariance of values by the weights' prior, of each setting, (N, N).
        values: The values, (N,).
    """
    fits = []
    for index, covariance in enumerate(covariances):
        inverse = np.linalg.inv(covariance + np.eye(len(values)))  # (N, N)
        dual = inverse @ values  # (N,)
        blocks = inverse.reshape(len(values) // 2, 2, len(values) // 2, 2)
        diagonal_blocks = np.einsum("pipj->pij", blocks)  # (N / 2, 2, 2), A_BB of each pair
        errors = np.linalg.solve(diagonal_blocks, dual.reshape(-1, 2, 1))  # (N / 2, 2, 1)
        fits.append(_Fit(float(np.square(errors).sum()), index, dual))
    return min(fits, key=lambda fit: fit.error)  # of equal errors the first


def _r2_kept_aside(covariances: Sequence[Floats], values: Floats) -> float:
    """Return R² on masks that were kept aside: in each of several parts, by a fit whose settings the others chose.

    Args:
        covariances: As in `_best_fit`.
        values: The values, (N,).

    Returns:
        The share of their variance that is explained; NaN if they are equal.
    """
    variation = float(np.square(values - values.mean()).sum())
    if variation == 0:  # nothing to explain
        return float("nan")
    part_of_row = np.arange(len(values)) // 2 % min(FOLDS, len(values) // 2)  # (N,), complementary masks together
    error = 0.0
    for part in range(int(part_of_row.max()) + 1):
        aside = np.flatnonzero(part_of_row == part)
        rest = np.flatnonzero(part_of_row != part)
        # The settings too are chosen without the part that is kept aside.
        best = _best_fit([covariance[np.ix_(rest, rest)] for covariance in covariances], values[rest])
        predicted = covariances[best.settings][np.ix_(aside, rest)] @ best.dual
        error += float(np.square(values[aside] - predicted).sum())
    return 1 - error / variation
