"""What an answer loses when sources of its prompt are taken out: leave-one-out, and linear models of many ablations."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import MethodError
from ..methods import Method
from ..methods.perturbation import Lime, Occlusion
from ..models.map_batches import map_batches
from ..models.task_model import TaskModel
from ..results.spans import Piece
from .completed import Completed

__all__ = ["Ablations", "Array", "context_cite", "leave_one_out", "random_ablations", "score_by_ablation"]

Array = npt.NDArray[np.float64]

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
    """

    def __init__(self, model: TaskModel, completed: Completed, sources: Sequence[Piece]) -> None:
        self.model, self.completed, self.sources = model, completed, sources
        self.passes = 0
        self._known: dict[tuple[bool, ...], Array] = {}

    def __call__(self, kept: npt.NDArray[np.bool_]) -> Array:
        """Return the log-probability of each token of the answer.

        Args:
            kept: Which sources are there, (N, S).

        Returns:
            (N, G).
        """
        rows = [tuple(map(bool, row)) for row in kept]
        new = [row for row in dict.fromkeys(rows) if row not in self._known]
        encodings = []
        for row in new:
            out = {i for source, there in zip(self.sources, row, strict=True) if not there for i in source.tokens}
            whole = self.completed.encoding
            encodings.append(whole.take(i for i in range(len(whole)) if i not in out))
        found = map_batches(self.model, encodings, lambda some: self._read([encodings[i] for i in some]))
        self._known.update(zip(new, found, strict=True))
        self.passes += len(new)
        return np.stack([self._known[row] for row in rows])

    def _read(self, encodings: list[object]) -> list[Array]:
        """Return the log-probabilities of the answer's tokens in each text, (G,) each."""
        model = self.model
        count = len(self.completed.encoding) - self.completed.prompt_tokens
        with torch.inference_mode():
            batch = model.batch(encodings, list(range(len(encodings))))
            hidden = model.states(batch)  # (B, T, H)
            found = []
            for row, mask in enumerate(batch.mask):
                last = hidden[row][mask][-count - 1 : -1]  # (G, H)
                ids = batch.inputs["input_ids"][row][mask][-count:]  # (G,)
                found.append(_log_probabilities(model, last, ids).double().cpu().numpy())
        return found


def leave_one_out(ablations: Ablations, weights: Array) -> Array:
    """Return what each part of the answer loses without each source, in nats: (K, S).

    d_j = log p(y | all sources) - log p(y | all but source j); a pass for each source and one for all.

    Args:
        ablations: Measures the answer.
        weights: Which tokens are of which part, (K, G).
    """
    count = len(ablations.sources)
    kept = np.concatenate([np.ones((1, count), bool), ~np.eye(count, dtype=bool)])
    values = ablations(kept) @ weights.T  # (S + 1, K)
    found: Array = (values[:1] - values[1:]).T
    return found


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


def score_by_ablation(method: Method, ablations: Ablations, weights: Array) -> tuple[Array, str] | None:
    """Score sources by a perturbation method over sources instead of tokens.

    Args:
        method: Occlusion is leave-one-out, LIME is ContextCite's estimator with LIME's number of samples.
        ablations: Measures the answer.
        weights: Which tokens are of which part, (K, G).

    Returns:
        Scores (K, S) and their unit; None for a method of another kind.

    Raises:
        MethodError: If the method perturbs windows of several sources.
    """
    if isinstance(method, Occlusion):
        if method.window != 1:
            raise MethodError("occlusion over sources takes out one at a time: window must be 1")
        return leave_one_out(ablations, weights), "nats"
    if isinstance(method, Lime):
        found = context_cite(ablations, weights, samples=method.samples, alpha=method.alpha, seed=method.seed)
        return found, "logit of the answer's probability"
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
        logits = model.parts.head.tokens(part).float()  # (G', V)
        own = logits.gather(1, chosen[:, None].to(logits.device))[:, 0]  # (G',)
        found.append(own - logits.logsumexp(-1))  # (G',)
    return torch.cat(found)
