"""LIME, ContextCite and KernelSHAP: linear models of which players are present, fitted by scikit-learn."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ..methods.base import import_package
from ..methods.perturbation import Booleans, Floats, Perturbation, random_subsets
from ..methods.registry import LOGITS, register

WEIGHT_OF_ENDS = 1e6
"""Weight of the whole and the empty input in KernelSHAP, in place of an infinite one (Captum's value)."""


class _Surrogate(Perturbation):
    """A linear model of which players are present, fitted by scikit-learn to each text's answers, with one seed."""

    def __init__(self, samples: int, seed: int) -> None:
        import_package("sklearn.linear_model")  # fails now if it is missing
        if samples < 1:
            raise ValueError("samples must be positive")
        self.samples = samples
        self.seed = seed


def _regressor(alpha: float = 0.0) -> Any:
    """Return a Lasso, or for alpha = 0 least squares."""
    models = import_package("sklearn.linear_model")
    # A Lasso without a random state draws a number from numpy's global state, and does not use it.
    return models.Lasso(alpha=alpha, random_state=0) if alpha else models.LinearRegression()


def _lasso_weights(columns: Floats, answers: Floats, alpha: float, importance: Floats | None = None) -> Floats:
    """Return the weights of a Lasso for each target, (K, M).

    The penalty is in the unit of the answers, or of their deviation where it would leave no weight at all.

    Args:
        columns: Which players are present, (N, M), as numbers.
        answers: The answers, (N, K).
        alpha: The penalty.
        importance: How much each answer counts, (N,); None for all alike.
    """
    # Of a single target scikit-learn may drop the axis.
    weights = np.atleast_2d(_regressor(alpha).fit(columns, answers, sample_weight=importance).coef_)  # (K, M)
    deviations = answers.std(0)  # (K,)
    # Equal answers have no weights in any unit.
    for target in np.flatnonzero((weights == 0).all(1) & (deviations > 0)):
        fitted = _regressor(alpha).fit(columns, answers[:, target] / deviations[target], sample_weight=importance)
        weights[target] = fitted.coef_ * deviations[target]
    return weights


@register(
    "lime",
    title="linear model of random deletions",
    needs=LOGITS,
    paper="Ribeiro et al., 2016",
    signed=True,
    passes="200 forward",
    extra="eval",
)
class Lime(_Surrogate):
    """Weights of a sparse linear model fitted to the answers on randomly perturbed texts.

    Each token is kept with probability one half; samples count by exp(-d^2 / 2), d their cosine distance to the whole
    text; a Lasso is fitted to the logits (Ribeiro et al., 2016, equation 1; Captum's kernel and penalty).

    Args:
        samples: Perturbed texts for each text.
        alpha: Penalty of the Lasso; 0 for plain least squares.
        seed: The same seed gives the same scores, alone or in a batch.
    """

    def __init__(self, samples: int = 200, alpha: float = 0.01, seed: int = 0) -> None:
        super().__init__(samples, seed)
        if alpha < 0:
            raise ValueError("alpha must not be negative")
        self.alpha = alpha

    def subsets(self, players: int) -> Booleans:
        """Return random subsets, (samples, M)."""
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randint(0, 2, (self.samples, players), generator=generator).numpy().astype(bool)

    def fit(self, present: Booleans, answers: Floats) -> Floats:
        """Fit a Lasso to the answers; texts count by how near they are to the whole text, see the class."""
        cosine = np.sqrt(present.mean(1))  # (N,), of a subset of M players with the whole: sqrt(size / M)
        importance = np.exp(-((1 - cosine) ** 2) / 2)  # (N,)
        return _lasso_weights(present.astype(float), answers, self.alpha, importance)


@register(
    "context-cite",
    title="sparse linear model of random deletions",
    needs="the model's probabilities",
    paper="Cohen-Wang et al., 2024",
    signed=True,
    passes="32 forward",
    extra="eval",
)
class ContextCite(_Surrogate):
    """Weights of a sparse linear model fitted to the log-odds of the answer on random ablations.

    Each source (of a text: each token) is kept with probability one half; a Lasso is fitted to
    log p - log(1 - p), p the probability of the answer; the presence columns are standardised (Cohen-Wang et al., 2024,
    section 4). For an answer of several tokens p is the product of their probabilities, and the log-odds are divided by
    the number of tokens.

    Args:
        samples: Ablations.
        alpha: Penalty of the Lasso.
        seed: The same seed gives the same scores, alone or in a batch.
    """

    log_odds = True

    def __init__(self, samples: int = 32, alpha: float = 0.01, seed: int = 0) -> None:
        super().__init__(samples, seed)
        if alpha <= 0:
            raise ValueError("alpha must be positive")
        self.alpha = alpha

    def subsets(self, players: int) -> Booleans:
        """Return random subsets, (samples, M)."""
        return random_subsets(players, self.samples, self.seed)

    def fit(self, present: Booleans, answers: Floats) -> Floats:
        """Fit the weights."""
        scale = present.std(0)  # (M,)
        scale[scale == 0] = 1.0  # of a token that is in all ablations, or in none
        # Back to the weight of a token's presence, from that of its standardised column.
        return _lasso_weights((present - present.mean(0)) / scale, answers, self.alpha) / scale


@register(
    "kernel-shap",
    title="Shapley values",
    needs=LOGITS,
    paper="Lundberg and Lee, 2017",
    signed=True,
    passes="200 forward",
    extra="eval",
)
class KernelShap(_Surrogate):
    """Shapley values of the tokens, by a linear model fitted to the answers on subsets of them.

    Subsets of s among M tokens count by (M - 1) / (binomial(M, s) s (M - s)) (Lundberg and Lee, 2017, theorem 2). They
    are drawn with that probability; where there are no more than `samples`, all are taken and the values are exact.

    Args:
        samples: Perturbed texts for each text.
        seed: The same seed gives the same scores, alone or in a batch.
    """

    adds_up = True

    def __init__(self, samples: int = 200, seed: int = 0) -> None:
        super().__init__(samples, seed)
        if samples < 2:
            raise ValueError("samples must be 2 or more: the whole text and the empty one are always among them")

    def subsets(self, players: int) -> Booleans:
        """Return all subsets if there are few, otherwise random ones, (N, M)."""
        if self._takes_all_subsets(players):  # the whole first and the empty one last
            return np.array(list(itertools.product((True, False), repeat=players)))
        return np.stack(list(itertools.islice(shapley_subsets(players, self.seed), self.samples)))

    def _takes_all_subsets(self, players: int) -> bool:
        """Return whether there are no more subsets of the players than samples."""
        return bool(2**players <= self.samples)

    def fit(self, present: Booleans, answers: Floats) -> Floats:
        """Fit the values."""
        count = present.shape[1]
        sizes = present.sum(1).tolist()
        takes_all = self._takes_all_subsets(count)
        # Random subsets are drawn with a probability in proportion to their weight, so they have equal weights here.
        weight_of_size = {
            size: (count - 1) / (math.comb(count, size) * size * (count - size)) if takes_all else 1.0
            for size in range(1, count)
        }
        weights = [weight_of_size.get(size, WEIGHT_OF_ENDS) for size in sizes]  # the ends are sizes 0 and M
        model = _regressor().fit(present.astype(float), answers, sample_weight=weights)
        return np.atleast_2d(model.coef_)  # (K, M), also where the axis of a single target is dropped


def shapley_subsets(players: int, seed: int) -> Iterator[Booleans]:
    """Yield the whole, the empty set, then random subsets by the Shapley kernel (Lundberg and Lee, 2017, theorem 2).

    Args:
        players: How many players there are, M.
        seed: The same seed gives the same subsets.

    Yields:
        Which players are in a subset, (M,).
    """
    yield np.ones(players, bool)
    yield np.zeros(players, bool)
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.arange(1, players)  # (M - 1,)
    probabilities = 1 / (sizes * (players - sizes))  # (M - 1,), of a size: the binomial of the kernel cancels
    while True:
        size = int(torch.multinomial(probabilities, 1, generator=generator)) + 1
        subset = np.zeros(players, bool)
        subset[torch.randperm(players, generator=generator)[:size].numpy()] = True
        yield subset
