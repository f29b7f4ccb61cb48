"""A prompt with its answer that is read once, and then again only from the first token on that is left out of it."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from ...compat import cache_argument, stretching_length
from ...copies.memory import attempted
from ...leave_out.outcomes import Progress, no_progress
from ...methods import FrozenGradient
from ...model.batch_attempts import batch_attempts
from ...model.forward_pass import ForwardPass
from ...model.task_model import TaskModel
from ...pipeline.completions.completed import Completed
from ...pipeline.completions.leave_out import Ablations, Array, answer_log_probabilities, token_log_probabilities
from ...pipeline.completions.sources import answer_pass
from ...pipeline.options import Options
from ...results.units.spans import NamedSpan

PROBED = 4
"""Tokens that are read again after each cut of the cache, to compare them with the first reading."""

TOLERANCE = 0.05
"""Most nats by which the log-probability of such a token may differ."""


Result = TypeVar("Result")


class KeptStates(DynamicCache):
    """A cache that keeps the keys and values of one pass, and leaves the pass as it is without a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[int, tuple[Tensor, Tensor]] = {}  # keys and values of each layer, (1, heads, T, H / heads)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Keep the keys and values of a layer, and return them."""
        self.states[layer_idx] = key_states, value_states
        return key_states, value_states

    def as_cache(self) -> DynamicCache:
        """Return a cache with the keys and values, of whole layers, also where attention has a window: it can be cut.

        Raises:
            KeyError: If a layer kept nothing.
        """
        cache = DynamicCache()
        for layer in range(len(self.states)):
            keys, values = self.states[layer]
            cache.update(keys.detach(), values.detach(), layer)
        return cache


class CachedText:
    """A prompt with its answer, with the keys and values of its tokens.

    Where a model has no such cache, or one that cannot be cut, every text is read from its beginning; so is a text for
    whose length the model stretches its rotary embeddings, since they are others for a shorter one.

    Attributes:
        model: A language model.
        completed: The prompt with its answer.
        count: How many tokens the answer has, G.
        run: The pass of the frozen gradient over the answer, which kept the keys and values; None without one.

    Args:
        model: A language model.
        completed: The prompt with its answer.
        options: The method that explains the answer, whose pass over it serves as the reading; None if none will.
    """

    def __init__(self, model: TaskModel, completed: Completed, options: Options | None = None) -> None:
        self.model, self.completed = model, completed
        self.count = len(completed.generated_ids)
        self._cache_name = cache_argument(model.unmodified)
        self._cache: Any = None
        self.run: ForwardPass | None = None
        if options is not None and isinstance(options.method, FrozenGradient):
            # None where no cache was filled: the method then runs a pass of its own.
            self.run = self._filling_cache(partial(answer_pass, model, completed, options))

    @cached_property
    def answer_nats(self) -> Array:
        """The log-probability of each token of the answer, (G,), in nats; see `answer_log_probabilities`."""
        return self._answer_nats(self._states)

    def nats_without(self, remaining_ids: Sequence[int], first: int) -> Array | None:
        """Return the log-probability of each token of the answer after a shorter prompt, (G,).

        Args:
            remaining_ids: The tokens of the shorter prompt and the answer.
            first: The first token of the whole text that is not among them.

        Returns:
            The log-probabilities; None where the cache does not give those of a whole forward pass.
        """
        # The states that predict the answer begin at the token before it, which is read again in any case.
        start = min(first, len(remaining_ids) - self.count - 1)
        _ = self._states  # whose pass fills the cache
        if self._cache is None or start < 1:  # with no token before, there is nothing to go on from
            return None
        with torch.inference_mode():
            return _or_none(lambda: self._continued(remaining_ids, start))

    @cached_property
    def _states(self) -> Tensor:
        """The hidden states of the text without its last token, (T - 1, H)."""
        if self.run is not None:
            return self.run.hidden[0].detach()
        states: Tensor | None = None
        for attempt in batch_attempts(self.model, [self.completed.context]):  # once more if memory runs out
            with attempt, torch.inference_mode():
                batch = self.model.batch([self.completed.context], [0])
                self.model.prepare(batch)
                hidden = self._filling_cache(partial(self._run, batch.inputs))
                hidden = self.model.states(batch) if hidden is None else hidden  # (1, T - 1, H)
                states = hidden[0][batch.mask[0]]
        assert states is not None  # noqa: S101  # an attempt succeeds, or raises
        return states

    def _filling_cache(self, read: Callable[[Mapping[str, Any]], Result | None]) -> Result | None:
        """Return a pass over the text, whose keys and values are kept; None if the model keeps none.

        Args:
            read: Runs the pass, with further arguments of the model.
        """
        # Of an encoder-decoder model the encoder reads the sources, and it has no such cache.
        encoding, config = self.completed.encoding, self.model.config.get_text_config()
        if encoding.source is not None or encoding.media or len(encoding) > stretching_length(config):
            return None
        kept = KeptStates()
        result = _or_none(lambda: read(self._cached(kept)))
        cache = _or_none(kept.as_cache)
        if cache is None or cache.get_seq_length() != len(self.completed.context):  # it kept something else
            return None
        self._cache = cache
        return result

    def _cached(self, cache: DynamicCache) -> dict[str, Any]:
        """Return the arguments with which the model uses a cache."""
        return {self._cache_name: cache, "use_cache": True}

    def _continued(self, ids: Sequence[int], start: int) -> Array | None:
        """Return the log-probabilities of the answer's tokens, (G,), read from a place on."""
        whole, cache = self.completed.encoding.ids, copy.deepcopy(self._cache)
        probed = whole[start : start + PROBED + 1]  # the last one is only predicted
        cache.crop(start - len(whole) + 1)  # a negative number drops so many of its len(whole) - 1 tokens
        # A cache that cannot be cut gives other numbers for tokens that were read before, or raises an error.
        nats = self._nats(self._after(cache, start, probed[:-1]), probed[1:])
        expected = self._nats(self._states[start : start + len(probed) - 1], probed[1:])
        if np.abs(nats - expected).max(initial=0.0) > TOLERANCE:
            return None
        cache.crop(1 - len(probed))  # the probed ones
        states = self._after(cache, start, ids[start:-1])
        return self._answer_nats(states)

    def _after(self, cache: Any, length: int, ids: Sequence[int]) -> Tensor:
        """Return the states of tokens, (T, H), after a cache of so many."""
        tokens = torch.tensor([list(ids)], device=self.model.device)
        attended = torch.ones((1, length + len(ids)), dtype=torch.long, device=self.model.device)
        return self._run({"input_ids": tokens, "attention_mask": attended}, self._cached(cache))[0]

    def _run(self, inputs: Mapping[str, Any], arguments: Mapping[str, Any]) -> Tensor:
        return self.model.run_trunk({**inputs, **arguments})

    def _answer_nats(self, states: Tensor) -> Array:
        ids = torch.tensor(self.completed.generated_ids, device=states.device)
        return answer_log_probabilities(self.model, states[-self.count :], ids, self.completed.parting)

    def _nats(self, states: Tensor, ids: Sequence[int]) -> Array:
        return token_log_probabilities(self.model, states, torch.tensor(list(ids), device=states.device))


def _or_none(work: Callable[[], Result]) -> Result | None:
    """Return the result of a call; None where a model with another kind of cache raises an error.

    Args:
        work: What a model does with a cache.
    """
    with attempted():
        return work()
    return None


class CachedAblations(Ablations):
    """Measures an answer with some of its sources removed, each from the first removed token on; see `Ablations`.

    Args:
        text: The prompt with the answer.
        sources: The sources.
        progress: Shows how many ablations are measured.
        known: What is known already, see `Ablations`.
    """

    def __init__(
        self,
        text: CachedText,
        sources: Sequence[NamedSpan],
        progress: Progress = no_progress,
        known: Mapping[tuple[bool, ...], Array] | None = None,
    ) -> None:
        super().__init__(text.model, text.completed, sources, progress, known=known)
        self._text = text

    def measured(self, ablations: list[tuple[bool, ...]]) -> Iterable[tuple[tuple[bool, ...], Array]]:
        """Yield each ablation with the log-probability of each token of the answer, (G,); see `Ablations`."""
        for present in ablations:
            nats = self._text.answer_nats if all(present) else self._nats_from_cache(present)
            if nats is None:
                yield from super().measured([present])
            else:
                yield present, nats

    def _nats_from_cache(self, present: tuple[bool, ...]) -> Array | None:
        """Return the log-probability of each token of the answer, (G,); None where the cache does not give them."""
        absent = [source for source, is_present in zip(self.sources, present, strict=True) if not is_present]
        removed = [token for source in absent for token in source.tokens]
        # Places are of pictures and sounds, which are not removed as tokens.
        if not removed or any(source.places for source in absent):
            return None
        return self._text.nats_without(self.without(present).ids, min(removed))
