"""What an answer loses when sources of its prompt are taken out: leave-one-out, and linear models of many ablations."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import InputError, MethodError
from ..methods import Method
from ..methods.guided_lime import GuidedLime, fit_pairs, halves_of
from ..methods.perturbation import KernelShap, Lime, Occlusion, all_subsets, kernel_weight, shapley_subsets
from ..models.map_batches import map_batches
from ..models.task_model import TaskModel
from ..results.spans import Piece
from .completed import Completed

__all__ = [
    "Ablated",
    "Ablations",
    "Array",
    "context_cite",
    "guided",
    "leave_one_out",
    "random_ablations",
    "score_by_ablation",
    "shapley_values",
    "verified",
]

Array = npt.NDArray[np.float64]

MARGIN = 2.0
"""How many times the nats that its score lets expect a source is taken to be worth at most."""

VERIFIED_AT_ONCE = 2
"""Sources that are left out in one batch."""

PLACES_AT_ONCE = 256
"""Places whose full vocabulary logits are held at once."""


class Ablations:
    """Measures a given answer with some of its sources only.

    The tokens of a source that is out are taken out and the text closes up; the answer is read as it stands. What was
    measured once is kept.

    Args:
        model: A causal language model.
        completed: The prompt with its answer.
        sources: The sources.

    Attributes:
        asked: How many ablations were asked for, those of one call counted once.
    """

    def __init__(self, model: TaskModel, completed: Completed, sources: Sequence[Piece]) -> None:
        self.model, self.completed, self.sources = model, completed, sources
        self.asked = 0
        self._written = len(completed.encoding) - completed.prompt_tokens
        self._known: dict[tuple[bool, ...], Array] = {}

    def __call__(self, kept: npt.NDArray[np.bool_]) -> Array:
        """Return the log-probability of each token of the answer.

        Args:
            kept: Which sources are there, (N, S).

        Returns:
            (N, G).

        Raises:
            InputError: If nothing of the prompt is left in one of them.
        """
        rows = [tuple(map(bool, row)) for row in kept]
        self.asked += len(set(rows))
        new = [row for row in dict.fromkeys(rows) if row not in self._known]
        encodings = []
        for row in new:
            out = {i for source, there in zip(self.sources, row, strict=True) if not there for i in source.tokens}
            encodings.append(left := self.completed.without(out))
            if len(left) == self._written if left.source is None else not len(left.source):
                raise InputError(
                    "nothing of the prompt is left without its sources; name sources that are a part of it"
                )
        found = map_batches(self.model, encodings, lambda some: self._read([encodings[i] for i in some]))
        self._known.update(zip(new, found, strict=True))
        return np.stack([self._known[row] for row in rows])

    def _read(self, encodings: list[object]) -> list[Array]:
        """Return the log-probabilities of the answer's tokens in each text, (G,) each."""
        model = self.model
        count = self._written
        with torch.inference_mode():
            batch = model.batch(encodings, list(range(len(encodings))))
            hidden = model.states(batch)  # (B, T, H)
            found = []
            for row, mask in enumerate(batch.mask):
                last = hidden[row][mask][-count - 1 : -1]  # (G, H)
                ids = batch.inputs["input_ids"][row][mask][-count:]  # (G,)
                found.append(_log_probabilities(model, last, ids).double().cpu().numpy())
        return found


def leave_one_out(ablations: Ablations, weights: Array, places: Sequence[int] | None = None) -> Array:
    """Return what each part of the answer loses without each source, in nats: (K, S).

    d_j = log p(y | all sources) - log p(y | all but source j); a pass for each source and one for all.

    Args:
        ablations: Measures the answer.
        weights: Which tokens are of which part, (K, G).
        places: The sources that are left out, one at a time; None for all S of them.
    """
    count = len(ablations.sources)
    out = range(count) if places is None else places
    kept = np.concatenate([np.ones((1, count), bool), ~np.eye(count, dtype=bool)[list(out)]])
    values = ablations(kept) @ weights.T  # (S + 1, K)
    found: Array = (values[:1] - values[1:]).T
    return found


def verified(ablations: Ablations, weights: Array, scores: Array) -> dict[int, float]:
    """Measure what an answer loses without its first sources, until the others can no longer come first.

    The sources are left out one at a time in the order of their scores, two in a batch. A source that was not measured
    yet is taken to be worth at most `MARGIN` times its score in nats, by the largest number of nats for a unit of score
    that was measured, none if all were negative; where that is less than the most that was measured, no other is.

    Args:
        ablations: Measures the answer.
        weights: Which tokens of the answer count, (G,).
        scores: What the sources are ranked by, (S,).

    Returns:
        What the answer loses without each measured source, in nats, by its place.
    """
    order = [int(i) for i in np.argsort(-scores, kind="stable")]
    lost: dict[int, float] = {}
    while len(lost) < len(order):
        part = order[len(lost) : len(lost) + VERIFIED_AT_ONCE]
        (nats,) = leave_one_out(ablations, weights[None], part)  # (n,)
        lost |= dict(zip(part, nats.tolist(), strict=True))
        rates = [max(nats, 0.0) / scores[place] for place, nats in lost.items() if scores[place] > 0]
        following = float(scores[order[len(lost)]]) if len(lost) < len(order) else 0.0
        if MARGIN * max(rates, default=0.0) * max(following, 0.0) <= max(lost.values()):
            break
    return lost


def context_cite(
    ablations: Ablations, weights: Array, *, samples: int = 32, alpha: float = 0.01, seed: int = 0
) -> Array:
    """Return the weights of ContextCite's linear model of the answer (Cohen-Wang et al., 2024): (K, S).

    A Lasso on random ablations, each source there with probability one half; it is fitted to the logit of the answer's
    probability for each of its tokens, with presence standardised.

    Args:
        ablations: Measures the answer.
        weights: Which tokens are of which part, (K, G).
        samples: Random ablations, a pass each.
        alpha: Penalty of the Lasso.
        seed: Of the ablations.
    """
    from sklearn.linear_model import Lasso

    kept = random_ablations(len(ablations.sources), samples, seed)
    presence = kept.astype(np.float64)  # (N, S)
    scale = presence.std(0)  # (S,)
    scale[scale == 0] = 1.0
    presence = (presence - presence.mean(0)) / scale
    answers = _logit(ablations(kept) @ weights.T)  # (N, K)
    tokens = weights.sum(1)  # (K,)
    lasso = Lasso(alpha=alpha, random_state=0)  # without, it takes a number from numpy's global random state
    return np.stack([lasso.fit(presence, y / n).coef_ / scale * n for y, n in zip(answers.T, tokens, strict=True)])


def random_ablations(sources: int, samples: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return which sources are there in each of some random ablations, (N, S)."""
    found: npt.NDArray[np.bool_] = np.random.default_rng(seed).random((samples, sources)) < 0.5
    return found


def shapley_values(ablations: Ablations, weights: Array, *, samples: int = 200, seed: int = 0) -> Array:
    """Return the Shapley values of the sources, by KernelSHAP's linear model of random ablations: (K, S).

    Where there are no more than `samples` ablations all are taken and the values are exact.

    Args:
        ablations: Measures the answer.
        weights: Which tokens are of which part, (K, G).
        samples: Ablations, a pass each.
        seed: Of the ablations.
    """
    from sklearn.linear_model import LinearRegression

    count = len(ablations.sources)
    exact = 2**count <= samples
    drawn = all_subsets(count) if exact else itertools.islice(shapley_subsets(count, seed), samples)
    kept = torch.cat(list(drawn)).numpy().astype(bool)  # (N, S)
    answers = ablations(kept) @ weights.T  # (N, K)
    each = [kernel_weight(int(row.sum()), count, drawn=not exact) for row in kept]
    found: Array = LinearRegression().fit(kept.astype(np.float64), answers, sample_weight=each).coef_
    return found


def guided(
    ablations: Ablations, weights: Array, prior: Array, *, samples: int = 32, alpha: float = 2.0, seed: int = 0
) -> tuple[Array, Array]:
    """Return the weights of guided LIME's linear model of random ablations, a ridge away from other scores: (K, S).

    Args:
        ablations: Measures the answer.
        weights: Which tokens are of which part, (K, G).
        prior: The scores that are started from, (K, S).
        samples: Ablations, a pass each, in pairs of one and what it leaves out.
        alpha: As in `GuidedLime`.
        seed: Of the ablations.

    Returns:
        The weights, and how much of the answers they explain on pairs left out of the fit, (K,).
    """
    halves = halves_of(len(ablations.sources), samples // 2, seed).numpy()  # (N, S)
    kept = np.concatenate([halves, 1 - halves]).astype(bool)  # (2N, S)
    there, gone = np.split(ablations(kept) @ weights.T, 2)  # (N, K) each
    fits = [fit_pairs(halves, one, other, own, alpha) for one, other, own in zip(there.T, gone.T, prior, strict=True)]
    return np.stack([fit.weights for fit in fits]), np.array([fit.r2 for fit in fits])


class Ablated(NamedTuple):
    """What a perturbation method says of sources.

    Attributes:
        table: Scores, (K, S).
        unit: What they count.
        passes: What it costs: "forward_passes", and those of a prior.
        r2: How much of the answers a fit explains, for each part; None where none is told.
    """

    table: Array
    unit: str
    passes: dict[str, float]
    r2: Array | None = None


NATS = "nats"

Prior = Callable[[Method], tuple[Array, Mapping[str, float]]]
"""Scores the sources by another method, (K, S), and says what that costs."""


def score_by_ablation(method: Method, ablations: Ablations, weights: Array, prior: Prior) -> Ablated | None:
    """Score sources by a perturbation method over sources instead of tokens.

    Args:
        method: Occlusion is leave-one-out, LIME is ContextCite's estimator with LIME's number of samples; KernelSHAP
            and guided LIME are theirs over sources.
        ablations: Measures the answer.
        weights: Which tokens are of which part, (K, G).
        prior: Gives the scores that guided LIME starts from.

    Returns:
        Scores; None for a method of another kind.

    Raises:
        MethodError: If the method perturbs windows of several sources.
    """
    count, asked = len(ablations.sources), ablations.asked
    if isinstance(method, Occlusion):
        if method.window != 1:
            raise MethodError("occlusion over sources takes out one at a time: window must be 1")
        return Ablated(leave_one_out(ablations, weights), NATS, {"forward_passes": count + 1.0})
    if isinstance(method, Lime):
        table = context_cite(ablations, weights, samples=method.samples, alpha=method.alpha, seed=method.seed)
        unit = "logit of the answer's probability"
        return Ablated(table, unit, {"forward_passes": float(ablations.asked - asked)})
    if isinstance(method, KernelShap):
        table = shapley_values(ablations, weights, samples=method.samples, seed=method.seed)
        return Ablated(table, NATS, {"forward_passes": float(ablations.asked - asked)})
    if isinstance(method, GuidedLime):
        start, cost = prior(method.prior)
        asked = ablations.asked
        table, r2 = guided(ablations, weights, start, samples=method.samples, alpha=method.alpha, seed=method.seed)
        passes = dict(cost) | {"forward_passes": ablations.asked - asked + cost.get("forward_passes", 0.0)}
        return Ablated(table, NATS, passes, r2)
    return None


def _logit(log_probability: Array) -> Array:
    """Return log p - log(1 - p)."""
    capped = np.minimum(log_probability, -1e-9)
    found: Array = capped - np.log(-np.expm1(capped))
    return found


def _log_probabilities(model: TaskModel, hidden: Tensor, ids: Tensor) -> Tensor:
    """Return the log-probabilities of tokens at the places where the model answers, (G,)."""
    found = []
    for part, chosen in zip(hidden.split(PLACES_AT_ONCE), ids.split(PLACES_AT_ONCE), strict=True):
        logits = model.head.tokens(part).float()  # (G', V)
        own = logits.gather(1, chosen[:, None].to(logits.device))[:, 0]  # (G',)
        found.append(own - logits.logsumexp(-1))  # (G',)
    return torch.cat(found)
