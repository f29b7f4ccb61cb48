"""Guided LIME: a linear model fitted to a few perturbed texts, starting from a cheaper method's scores."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..methods.base import Method, import_package
from ..methods.perturbation import Booleans, Fit, Floats, Perturbation
from ..methods.registry import method_named, register


@register(
    "guided-lime",
    paper="after Ribeiro et al., 2016, and Covert and Lee, 2021",
    needs="a model that its prior works on",
    signed=True,
    passes="32 forward and the prior's",
    extra="eval",
)
class GuidedLime(Perturbation):
    """Weights of a linear model fitted to a few perturbed texts, with a ridge penalty towards another method's scores.

    Texts come in pairs, a random half z of the tokens and the other half (Covert and Lee, 2021, section 4.2), so that
    the intercept drops out: f(z) - f(1 - z) is fitted by s.w with s = 2z - 1, and w = c prior + d, where the scale c
    is free and d pays alpha |d|^2. `diagnostics["r2"]` is the share of the variance of the answers that the fit
    explains on pairs that it was not given, each left out in turn.

    Args:
        samples: Perturbed texts for each text, an even number; short texts have fewer that are distinct.
        prior: The method that is started from, with its settings.
        alpha: How many times as large the variance of what no linear model explains is taken to be as that of a
            token's distance to the prior; small numbers trust the samples, large ones the prior.
        seed: The same seed gives the same scores, alone or in a batch.
    """

    needs_grad = True  # the prior may backpropagate through the model

    def __init__(
        self,
        samples: int = 32,
        prior: str | Method = "frozen-gradient:read_at=0,points=0.3",
        alpha: float = 2.0,
        seed: int = 0,
    ) -> None:
        import_package("scipy.linalg")  # now, to say that it is missing

        if samples < 4 or samples % 2:
            raise ValueError("samples must be an even number, 4 or more: texts come in pairs")
        if alpha <= 0:
            raise ValueError("alpha must be positive")
        self.samples, self.alpha, self.seed = samples, alpha, seed
        self.prior = method_named(prior)
        self.memory = self.prior.memory

    def subsets(self, players: int) -> Booleans:
        """Return random halves of the players, then their complements, (2 n, M)."""
        halves = halves_of(players, self.samples // 2, self.seed).numpy().astype(bool)  # (n, M)
        return np.concatenate([halves, ~halves])

    def fit(self, present: Booleans, answers: Floats, prior: Floats | None) -> Fit:
        """Fit the weights to the differences within pairs, target by target."""
        present_in_first = present[: len(present) // 2].astype(int)  # (n, M)
        originals, complements = np.split(answers, 2)  # (n, K) each
        priors = np.zeros((answers.shape[1], present.shape[1])) if prior is None else prior  # (K, M)
        fits = [
            fit_pairs(present_in_first, answer, complement, scores, self.alpha)
            for answer, complement, scores in zip(originals.T, complements.T, priors, strict=True)
        ]
        return Fit(np.stack([weights for weights, _ in fits]), np.array([r2 for _, r2 in fits]))


def fit_pairs(
    present: npt.NDArray[np.integer], originals: Floats, complements: Floats, prior: Floats, alpha: float
) -> tuple[Floats, float]:
    """Return weights fitted to the differences within pairs, (M,), and the R^2 on pairs left out of the fit.

    With D = originals - complements and S = 2 present - 1, these are weights c prior + d, where c is free and d costs
    alpha |d|^2. By generalised least squares, c is the regression of D on S prior with the covariance
    K = I + S S' / alpha of the errors. The size of the system is the number of pairs, not of tokens.

    Args:
        present: Which tokens are present in the first text of each pair, (n, M).
        originals: The answers on these texts, (n,).
        complements: The answers on their complements, (n,).
        prior: Scores to start from, of any scale, (M,).
        alpha: As in `GuidedLime`.
    """
    from scipy.linalg import cho_factor, cho_solve

    signs = 2.0 * present - 1.0  # (n, M)
    difference = originals - complements  # (n,)
    prior_size = np.abs(prior).max()
    prior = prior / prior_size if prior_size > 0 else prior  # (M,); only its direction is used
    cholesky = cho_factor(np.eye(len(signs)) + signs @ signs.T / alpha)  # K, (n, n)
    covariance_inverse = cho_solve(cholesky, np.eye(len(signs)))  # (n, n)
    prior_predictions = signs @ prior  # (n,), the prediction of the prior
    weighted_predictions = covariance_inverse @ prior_predictions  # (n,)
    prior_weight = float(prior_predictions @ weighted_predictions)
    scale = float(weighted_predictions @ difference) / prior_weight if prior_weight > TINY else 0.0
    residual_map = covariance_inverse  # (n, n)
    if prior_weight > TINY:
        residual_map = covariance_inverse - np.outer(weighted_predictions, weighted_predictions) / prior_weight
    residuals = residual_map @ difference  # (n,)
    weights = scale * prior + signs.T @ residuals / alpha  # (M,)
    return weights, _left_out_r2(residual_map, residuals, originals, complements)


TINY = 1e-12
"""A prediction of the prior, or the weight of a pair, below this counts as zero."""


def _left_out_r2(residual_map: Floats, residuals: Floats, originals: Floats, complements: Floats) -> float:
    """Return the leave-one-out R^2 over pairs, in closed form (Dubrule, 1983, for the differences)."""
    count = len(residuals)
    if count == 1:  # a single token: the two texts are all there are, and a line goes through both
        return 1.0
    difference = originals - complements  # (n,)
    diagonal = np.diag(residual_map)  # (n,)
    difference_error = np.divide(residuals, diagonal, out=difference.copy(), where=diagonal > TINY)  # (n,)
    # The mean of a pair is predicted by the mean of all other pairs.
    pair_means = (originals + complements) / 2  # (n,)
    mean_error = (pair_means - pair_means.mean()) * count / (count - 1)  # (n,)
    # An answer is the mean of its pair plus or minus half of the difference: squared errors of a pair add up like this.
    squared_error = float((mean_error**2 + difference_error**2 / 4).sum())
    total = float((mean_error**2 + difference**2 / 4).sum())  # of the prediction that both answers are the other mean
    return 1.0 - squared_error / total if total > 0 else 0.0


def halves_of(count: int, pairs: int, seed: int) -> Tensor:
    """Return distinct subsets of M tokens, (n, M), that all have the first token, so none is another's complement.

    All of them if there are at most `pairs`, otherwise random ones; each token is present in half of them or of
    their complements.
    """
    if count - 1 < 62 and 2 ** (count - 1) <= pairs:
        bits = torch.arange(2 ** (count - 1))[:, None] >> torch.arange(count - 1) & 1  # (n, M - 1)
        return torch.cat([torch.ones(len(bits), 1, dtype=torch.long), bits], 1)  # (n, M)
    generator = torch.Generator().manual_seed(seed)
    subsets: dict[tuple[int, ...], None] = {}
    while len(subsets) < pairs:
        subsets[(1, *torch.randint(0, 2, (count - 1,), generator=generator).tolist())] = None
    return torch.tensor(list(subsets))  # (n, M)
