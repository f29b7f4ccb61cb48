"""Guided LIME: a linear model fitted to a few perturbed texts, from where a cheaper method leaves off."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..inputs.batching import Batch
from ..models.forward_pass import ForwardPass
from ..models.layers import Layers
from ..models.task_model import TaskModel
from .base import Method, Request, Scores, imported, run_method
from .perturbation import Coalitions
from .registry import method_named, register

__all__ = ["GuidedLime", "fit_pairs", "halves_of"]

Floats = npt.NDArray[np.float64]


@register(
    "guided-lime",
    paper="after Ribeiro et al., 2016, and Covert and Lee, 2021",
    needs="a model that its prior works on",
    signed=True,
    passes="32 forward and the prior's",
    extra="eval",
)
class GuidedLime(Method):
    """Weights of a linear model fitted to a few perturbed texts, a ridge away from another method's scores.

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

    needs_grad = True  # the prior may go back through the model

    def __init__(
        self,
        samples: int = 32,
        prior: str | Method = "frozen-gradient:read_at=0,points=0.3",
        alpha: float = 2.0,
        seed: int = 0,
    ) -> None:
        imported("scipy.linalg")  # now, to say that it is missing

        if samples < 4 or samples % 2:
            raise ValueError("samples must be an even number, 4 or more: texts come in pairs")
        if alpha <= 0:
            raise ValueError("alpha must be positive")
        self.samples, self.prior, self.alpha, self.seed = samples, method_named(prior), alpha, seed
        self.memory = self.prior.memory

    def forward(self, model: TaskModel, batch: Batch, layers: Layers = None, *, predict: bool = True) -> ForwardPass:
        """Run the pass that the prior needs."""
        return self.prior.forward(model, batch, layers, predict=predict)

    def score(self, request: Request) -> Scores:
        """Score by the fitted weights."""
        ask = Coalitions(request)
        prior = run_method(self.prior, request).values[:, :, 0].detach().double().cpu()  # (B, K, T)
        mask = request.forward.batch.mask.cpu()
        scores = torch.zeros(*prior.shape[:2], 1, prior.shape[2], dtype=torch.float32)  # (B, K, 1, T)
        r2 = torch.zeros(prior.shape[:2], dtype=torch.float32)  # (B, K)
        with torch.inference_mode():
            for row, players in enumerate(ask.players):
                if not players:
                    continue
                places = mask[row].nonzero()[:, 0][players]  # (M,)
                halves = halves_of(len(players), self.samples // 2, self.seed)  # (n, M)
                answers = ask(torch.cat([halves, 1 - halves]), torch.full((2 * len(halves),), row))  # (2n, K)
                for k, (there, gone) in enumerate(answers.double().view(2, len(halves), -1).permute(2, 0, 1)):
                    fit = fit_pairs(
                        halves.numpy(), there.numpy(), gone.numpy(), prior[row, k, places].numpy(), self.alpha
                    )
                    scores[row, k, 0, places] = torch.as_tensor(fit.weights).float()
                    r2[row, k] = fit.r2
        return Scores(scores, {"r2": r2})


@dataclass(frozen=True)
class PairFit:
    """A linear model fitted to pairs of perturbed texts.

    Attributes:
        weights: Of the M tokens, (M,).
        scale: What the prior was multiplied by.
        r2: The share of the variance that it explains on pairs left out of the fit; below zero where the mean of the
            others would have told more.
    """

    weights: Floats
    scale: float
    r2: float


def fit_pairs(halves: npt.NDArray[np.integer], there: Floats, gone: Floats, prior: Floats, alpha: float) -> PairFit:
    """Fit weights to the differences within pairs.

    With D = there - gone and S = 2 halves - 1, this is the best linear prediction of D whose errors have the covariance
    K = I + S S' / alpha around c S prior: the system is as large as there are pairs, however long the text is.

    Args:
        halves: Which tokens are there, (n, M).
        there: The answers on these texts, (n,).
        gone: The answers on their complements, (n,).
        prior: Scores to start from, of any scale, (M,).
        alpha: As in `GuidedLime`.
    """
    from scipy.linalg import cho_factor, cho_solve

    signs = 2.0 * halves - 1.0  # (n, M)
    difference = there - gone  # (n,)
    size = np.abs(prior).max()
    prior = prior / size if size > 0 else prior  # (M,); only its direction is used
    factor = cho_factor(np.eye(len(signs)) + signs @ signs.T / alpha)  # K, (n, n)
    inverse = cho_solve(factor, np.eye(len(signs)))  # (n, n)
    along = signs @ prior  # (n,), what the prior predicts
    weighed = inverse @ along  # (n,)
    strength = float(along @ weighed)
    scale = float(weighed @ difference) / strength if strength > TINY else 0.0
    left = inverse - np.outer(weighed, weighed) / strength if strength > TINY else inverse  # (n, n)
    missed = left @ difference  # (n,)
    weights = scale * prior + signs.T @ missed / alpha  # (M,)
    return PairFit(weights, scale / size if size > 0 else 0.0, _left_out(left, missed, there, gone))


TINY = 1e-12
"""Below this, a prediction of the prior or the weight of a pair counts as none."""


def _left_out(left: Floats, missed: Floats, there: Floats, gone: Floats) -> float:
    """Return R^2 on pairs left out one at a time, in closed form (Dubrule, 1983, for the differences)."""
    count = len(missed)
    if count == 1:  # a single token: the two texts are all there are, and a line goes through both
        return 1.0
    difference = there - gone  # (n,)
    own = np.diag(left)  # (n,)
    error = np.divide(missed, own, out=difference.copy(), where=own > TINY)  # (n,), of the difference
    middle = (there + gone) / 2  # (n,)
    off = (middle - middle.mean()) * count / (count - 1)  # (n,), of the middle from that of the other pairs
    total = float((off**2 + difference**2 / 4).sum())
    return 1.0 - float((off**2 + error**2 / 4).sum()) / total if total > 0 else 0.0


def halves_of(count: int, pairs: int, seed: int) -> Tensor:
    """Return distinct subsets of M tokens, none the complement of another: each has the first token, (n, M).

    All of them where there are no more than asked for, otherwise random ones; each token is there in half of them or of
    their complements.
    """
    if count - 1 < 62 and 2 ** (count - 1) <= pairs:
        rest = torch.arange(2 ** (count - 1))[:, None] >> torch.arange(count - 1) & 1  # (n, M - 1)
        return torch.cat([torch.ones(len(rest), 1, dtype=torch.long), rest], 1)  # (n, M)
    generator = torch.Generator().manual_seed(seed)
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < pairs:
        drawn[(1, *torch.randint(0, 2, (count - 1,), generator=generator).tolist())] = None
    return torch.tensor(list(drawn))  # (n, M)
