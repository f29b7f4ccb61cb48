"""Ablations of sources: the log-probability of an answer without some of them."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...errors import InputError
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Outcomes, Progress, in_batches, no_progress
from ...model.task_model import TaskModel
from ...parts.headpiece import TOKENS_AT_ONCE
from ...results.units.spans import NamedSpan
from ...tasks.base import generating_task
from .completed_prompts import Completed

Array = npt.NDArray[np.float64]

MARGIN = 2.0
"""Upper bound of a source's loss in nats, as a multiple of the loss that its score predicts."""

VERIFIED_AT_ONCE = 2
"""Sources that are removed in one batch of a verification."""


class Ablations:
    """Measures the log-probability of an answer with some of its sources removed, each ablation once.

    The tokens of a source that is left out are removed and the text closes up; the answer is read as it stands. Regions
    of pictures get the mean colour of what surrounds them, moments of sounds are silenced: before the processor, so
    that the model reads what it would read of such a picture or sound.

    Args:
        model: A language model.
        completed: The prompt with its answer.
        sources: The sources that can be removed, S of them.
        progress: Shows how many ablations were measured.
        known: What is known already: the log-probability of each token of the answer, (G,), by which sources are there.
    """

    def __init__(
        self,
        model: TaskModel,
        completed: Completed,
        sources: Sequence[NamedSpan],
        progress: Progress = no_progress,
        *,
        known: Mapping[tuple[bool, ...], Array] | None = None,
    ) -> None:
        self.model, self.completed, self.sources = model, completed, sources
        self._generated = len(completed.encoding) - completed.prompt_tokens
        self._other = None if completed.other is None else Ablations(model, completed.other, sources, progress)
        ask = in_batches(model, self.without, self._read)
        self._answers: Outcomes[tuple[bool, ...], Array] = Outcomes(ask, progress, known)

    def __call__(self, present: npt.NDArray[np.bool_]) -> Array:
        """Return the log-probability of each token of the answer.

        Args:
            present: Which sources are there, (N, S).

        Returns:
            (N, G).
        """
        return np.stack(self._answers(map(tuple, present.tolist())))

    def nats(self, present: npt.NDArray[np.bool_]) -> Array:
        """Return the log-probability of the whole answer, less that of the other one if there is one, (N,)."""
        nats: Array = self(present).sum(1)
        return nats if self._other is None else nats - self._other.nats(present)

    def without(self, present: tuple[bool, ...]) -> Encoding:
        """Return prompt and answer without the sources that are not present, one flag for each source."""
        removed = [source for source, is_present in zip(self.sources, present, strict=True) if not is_present]
        remaining = self.completed.without({token for source in removed for token in source.tokens})
        encoder_input = remaining.source
        prompt_left = len(remaining) - self._generated if encoder_input is None else len(encoder_input)
        if prompt_left == 0:
            raise InputError("nothing of the prompt is left without its sources; name sources that are a part of it")
        if not any(source.places for source in removed):
            return remaining
        places: list[list[tuple[float, ...]]] = [[] for _ in remaining.media]  # those removed of each medium
        for source in removed:
            for medium, place in source.places:
                places[medium].append(place)
        return generating_task(self.model).without_places(remaining, self.completed.prompt, places)

    def _read(self, encodings: list[Encoding], _: object) -> Iterable[Array]:
        """Run the model on texts, and return the log-probabilities of the answer's tokens in each, (G,)."""
        return log_probabilities(self.model, encodings, [self._generated] * len(encodings))


def leave_one_out(ablations: Ablations, weights: Array, places: Sequence[int] | None = None) -> Array:
    """Return the loss of each part of the answer without each source, in nats: (K, S).

    d_j = log p(y | all sources) - log p(y | all but source j); a pass for each source and one for all.

    Args:
        ablations: Measures the answer.
        weights: Which tokens are of which part, (K, G).
        places: The sources that are left out, one at a time; None for all S of them.
    """
    count = len(ablations.sources)
    left_out = range(count) if places is None else places
    present = np.concatenate([np.ones((1, count), bool), ~np.eye(count, dtype=bool)[list(left_out)]])
    values = ablations(present) @ weights.T  # (S + 1, K)
    losses: Array = (values[:1] - values[1:]).T
    return losses


def verified(ablations: Ablations, weights: Array, scores: Array) -> dict[int, float]:
    """Measure an answer's loss without its first sources, until no other source can rank first.

    The sources are left out one at a time in the order of their scores, two in a batch. A source that was not measured
    yet is taken to be worth at most `MARGIN` times its score in nats, by the largest number of nats for a unit of score
    that was measured, none if all were negative; where that is less than the most that was measured, no other is.

    Args:
        ablations: Measures the answer.
        weights: Which tokens of the answer count, (G,).
        scores: The scores that rank the sources, (S,).

    Returns:
        What the answer loses without each measured source, in nats, by its place.
    """
    order = [int(i) for i in np.argsort(-scores, kind="stable")]
    lost: dict[int, float] = {}
    while len(lost) < len(order):
        part = order[len(lost) : len(lost) + VERIFIED_AT_ONCE]
        (nats,) = leave_one_out(ablations, weights[None], part)  # (n,)
        lost |= dict(zip(part, nats.tolist(), strict=True))
        rates = [max(nats, 0.0) / scores[source] for source, nats in lost.items() if scores[source] > 0]
        following = float(scores[order[len(lost)]]) if len(lost) < len(order) else 0.0
        if MARGIN * max(rates, default=0.0) * max(following, 0.0) <= max(lost.values()):
            break
    return lost


def log_probabilities(model: TaskModel, encodings: list[Encoding], counts: Sequence[int]) -> list[Array]:
    """Return the log-probabilities of the last tokens of each text, from one batch.

    Args:
        model: A language model.
        encodings: The texts.
        counts: How many tokens of each.
    """
    batch = model.batch(encodings, list(range(len(encodings))))
    hidden = model.states(batch)  # (B, T, H)
    values = []
    for row, (mask, count) in enumerate(zip(batch.mask, counts, strict=True)):
        states = hidden[row][mask][-count - 1 : -1]  # (G, H)
        ids = batch.inputs["input_ids"][row][mask][-count:]  # (G,)
        values.append(_log_probabilities_of(model, states, ids).double().cpu().numpy())
    return values


def _log_probabilities_of(model: TaskModel, hidden: Tensor, ids: Tensor) -> Tensor:
    """Return the log-probabilities of tokens, (G,), from the hidden states that predict them."""
    parts = []
    for states, tokens in zip(hidden.split(TOKENS_AT_ONCE), ids.split(TOKENS_AT_ONCE), strict=True):
        logits = model.head.tokens(states).float()  # (G', V)
        token_logits = logits.gather(1, tokens[:, None].to(logits.device))[:, 0]  # (G',)
        parts.append(token_logits - logits.logsumexp(-1))  # (G',)
    return torch.cat(parts)
