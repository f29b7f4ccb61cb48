"""Completions without words, sources or parts of media of their prompts: how likely they still are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...errors import InputError
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Answer, Outcomes, Progress, in_batches, no_progress
from ...leave_out.removal import TextRemoval, Tokens
from ...model.task_model import TaskModel
from ...parts.headpiece import TOKENS_AT_ONCE
from ...results.units.spans import NamedSpan
from ...tasks.base import Region, generating_task
from .completed import Completed, Parting

Array = npt.NDArray[np.float64]

Answers = Callable[[list[TextRemoval]], list[Answer]]


class Ablations:
    """Measures the log-probability of an answer with some of its S sources removed, each ablation once.

    The tokens of a source that is left out are removed and the text closes up; the answer is read as it stands. Regions
    of pictures get the mean colour of what surrounds them, moments of sounds are silenced, before the processor.

    Args:
        model: A language model.
        completed: The prompt with its completion, the answer of G tokens, and with another answer if there is one.
        sources: The S sources of the prompt.
        progress: Shows how many ablations are measured.
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
        self._answer_length = len(completed.generated_ids)  # G
        self._other = None if completed.other is None else Ablations(model, completed.other, sources, progress)
        self._answers: Outcomes[tuple[bool, ...], Array] = Outcomes(self.measured, progress, known)

    def __call__(self, present: npt.NDArray[np.bool_]) -> Array:
        """Return the log-probability of each token of the answer, (N, G), by which sources are there, (N, S)."""
        return np.stack(self._answers(map(tuple, present.tolist())))

    def nats(self, present: npt.NDArray[np.bool_]) -> Array:
        """Return the log-probability of the whole answer, less that of the other one if there is one, (N,)."""
        nats: Array = self(present).sum(1)
        return nats if self._other is None else nats - self._other.nats(present)

    def without(self, present: tuple[bool, ...]) -> Encoding:
        """Return prompt and answer without the sources that are not present, one flag for each source."""
        removed = [source for source, is_present in zip(self.sources, present, strict=True) if not is_present]
        remaining = self.completed.without(set(chain.from_iterable(source.tokens for source in removed)))
        if remaining.source is None:
            is_prompt_empty = len(remaining) == self._answer_length  # no token of the answer is ever removed
        else:  # an encoder reads the prompt
            is_prompt_empty = len(remaining.source) == 0
        if is_prompt_empty:
            raise InputError("nothing of the prompt is left without its sources; name sources that are a part of it")
        return self._without_places(remaining, [place for source in removed for place in source.places])

    def _without_places(self, remaining: Encoding, removed: list[tuple[int, Region]]) -> Encoding:
        """Return what remains without some places of its media, each with the number of the medium."""
        if not removed:
            return remaining
        places_of_media: list[list[Region]] = [[] for _ in remaining.media]
        for medium_index, place in removed:
            places_of_media[medium_index].append(place)
        return generating_task(self.model).without_places(remaining, self.completed.prompt, places_of_media)

    def measured(self, ablations: list[tuple[bool, ...]]) -> Iterable[tuple[tuple[bool, ...], Array]]:
        """Yield each ablation with the log-probability of each token of the answer, (G,), from whole forward passes.

        Args:
            ablations: Which sources are present in each.
        """
        return in_batches(self.model, self.without, self._read)(ablations)

    def _read(self, encodings: list[Encoding], _: object) -> Iterable[Array]:
        """Run the model on texts, and return the log-probabilities of the answer's tokens in each, (G,).

        Args:
            encodings: The texts.
            _: The ablation of each, which `in_batches` gives as well, and which its log-probabilities do not need.
        """
        counts = [self._answer_length] * len(encodings)
        return log_probabilities(self.model, encodings, counts, self.completed.parting)


def log_probabilities(
    model: TaskModel, encodings: list[Encoding], counts: Sequence[int], parting: Parting | None = None
) -> list[Array]:
    """Return the log-probabilities of the last tokens of texts, in nats, from one batch.

    Args:
        model: A language model.
        encodings: The texts.
        counts: How many of the last tokens of each are measured.
        parting: See `answer_log_probabilities`.

    Returns:
        For each text the log-probabilities of its last tokens, (count,).
    """
    batch = model.batch(encodings)
    hidden = model.states(batch)  # (B, T, H)
    values = []
    for row, (mask, count) in enumerate(zip(batch.mask, counts, strict=True)):
        token_ids = batch.inputs["input_ids"][row][mask][-count:]  # (count,)
        predicting_states = hidden[row][mask][-count - 1 : -1]  # (count, H), each at the token before
        values.append(answer_log_probabilities(model, predicting_states, token_ids, parting))
    return values


def answer_log_probabilities(model: TaskModel, states: Tensor, token_ids: Tensor, parting: Parting | None) -> Array:
    """Return the log-probabilities of the tokens of an answer, (G,), in nats.

    Args:
        model: A language model.
        states: The hidden states that predict them, (G, H).
        token_ids: The tokens, (G,).
        parting: The token from whose log-probability that of another answer's token is subtracted; None for none.
    """
    nats = token_log_probabilities(model, states, token_ids)
    if parting is not None:
        other_id = torch.tensor([parting.other_id], device=token_ids.device)
        nats[parting.token] -= token_log_probabilities(model, states[[parting.token]], other_id)[0]
    return nats


def token_log_probabilities(model: TaskModel, states: Tensor, token_ids: Tensor) -> Array:
    """Return the log-probabilities of tokens, (G,), in nats.

    Args:
        model: A language model.
        states: The hidden states that predict them, (G, H).
        token_ids: The tokens, (G,).
    """
    parts = []
    for hidden, tokens in zip(states.split(TOKENS_AT_ONCE), token_ids.split(TOKENS_AT_ONCE), strict=True):
        logits = model.head.tokens(hidden).float()  # (G', V)
        token_logits = logits.gather(1, tokens[:, None].to(logits.device))[:, 0]  # (G',)
        parts.append(token_logits - logits.logsumexp(-1))  # (G',)
    return torch.cat(parts).double().cpu().numpy()


def answers_without(ablations: Ablations, units: Iterable[Tokens], weights: Array | None = None) -> Answers:
    """Return a function that measures a completion without units of its prompt.

    Args:
        ablations: Measures the completion without sources.
        units: The indices of the units of which each source is made, in the order of the sources.
        weights: Which tokens of the completion belong to each of its parts, (K, G), if parts are measured as well.
    """
    places = [(source.tokens, source.places) for source in ablations.sources]
    place_of_unit = dict(zip(units, places, strict=True))

    def remaining(removal: TextRemoval) -> list[bool]:
        """Return whether each source is there after a removal; sources with the same words are at one place."""
        removed_units = set(removal.tokens)
        removed_places = {place for unit, place in place_of_unit.items() if removed_units.issuperset(unit)}
        return [place not in removed_places for place in places]

    def answers(removals: list[TextRemoval]) -> list[Answer]:
        # Of a given completion nothing is predicted that could change: its log-probability is all that is measured.
        present = np.array(list(map(remaining, removals)))  # (N, S)
        if weights is None:
            return [Answer(prediction=None, value=nats, outcome=None) for nats in ablations.nats(present).tolist()]
        nats_of_parts = ablations(present) @ weights.T  # (N, K)
        return [
            Answer(prediction=None, value=float(nats.sum()), outcome=None, values=tuple(nats.tolist()))
            for nats in nats_of_parts
        ]

    return answers
