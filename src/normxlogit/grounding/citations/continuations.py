"""What a model makes of continuations of one text, with the text's keys and values from a cache."""

import copy
import inspect
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import DynamicCache

from ...copies.memory import reraise_out_of_memory
from ...inputs.alignment import append_tokens
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import in_batches
from ...model.task_model import TaskModel
from ...parts.headpiece import TOKENS_AT_ONCE
from ...pipeline.completions.leave_out import Array

TOLERANCE = 0.05
"""Most nats by which a log-probability computed with a cache may differ."""

ROWS_ON_CPU = 16
"""Most continuations in a batch on a CPU: sorted ones share their beginnings, which are read once."""

Ids = tuple[int, ...]


class Continuation(NamedTuple):
    """Token ids that follow a text.

    Attributes:
        prefix: The first of them, which are only context.
        ids: The ones after these, whose log-probability is measured.
    """

    prefix: Ids
    ids: Ids

    @property
    def all_ids(self) -> list[int]:
        """The prefix and the ids after it."""
        return [*self.prefix, *self.ids]


class Predictions(NamedTuple):
    """What a model predicts at the places of n tokens.

    Attributes:
        nats: Log-probabilities of the tokens, (n,).
        likeliest_ids: The likeliest tokens there, (n, k).
        likeliest_nats: Their log-probabilities, (n, k).
    """

    nats: Array
    likeliest_ids: npt.NDArray[np.int64]
    likeliest_nats: Array

    def at(self, places: slice) -> "Predictions":
        """Return the predictions at some places."""
        return Predictions(self.nats[places], self.likeliest_ids[places], self.likeliest_nats[places])


class ContinuedText:
    """A text, and what a language model makes of its continuations.

    Args:
        model: A language model.
        text: The text; for an encoder-decoder model the tokens that the decoder reads, with the source.
    """

    def __init__(self, model: TaskModel, text: Encoding) -> None:
        self.model, self.text = model, text
        parameters = inspect.signature(type(model.unmodified).forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"  # before transformers 5.24
        self._last_logits_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self._caches = text.source is None and not text.media and len(text) > 1
        self._cache: Any = None
        """The keys and values of all tokens of the text but the last one."""

    def predictions(self, continuations: Sequence[Ids], likeliest: int) -> list[Predictions]:
        """Return what the model predicts at the places of the continuations' tokens, from whole passes.

        Of a single continuation the pass also gives the cache of the text.

        Args:
            continuations: Token ids that follow the text.
            likeliest: How many of the likeliest tokens are returned.
        """
        distinct = list(dict.fromkeys(continuations))

        def read(encodings: list[Encoding], keys: list[Ids]) -> Iterable[Predictions]:
            return self._predictions(encodings, [len(ids) for ids in keys], likeliest, cached=len(distinct) == 1)

        predicted = dict(in_batches(self.model, self._continued, read)(distinct))
        return [predicted[ids] for ids in continuations]

    def _continued(self, ids: Sequence[int]) -> Encoding:
        return append_tokens(self.model.tokenizer, self.text, list(ids))

    @torch.inference_mode()
    def _predictions(
        self, encodings: list[Encoding], counts: Sequence[int], likeliest: int, *, cached: bool
    ) -> Iterator[Predictions]:
        batch = self.model.batch(encodings, list(range(len(encodings))))
        self.model.prepare(batch)
        hidden = self._states_and_cache(batch.inputs, counts[0]) if cached and self._caches else None  # (B, T, H)
        hidden = self.model.states(batch) if hidden is None else hidden
        for row, (mask, count) in enumerate(zip(batch.mask, counts, strict=True)):
            states = hidden[row][mask][-count - 1 : -1]  # (G, H)
            ids = batch.inputs["input_ids"][row][mask][-count:]  # (G,)
            parts = []
            for some, tokens in zip(states.split(TOKENS_AT_ONCE), ids.split(TOKENS_AT_ONCE), strict=True):
                nats = self.model.head.tokens(some).float().log_softmax(-1)  # (G', V)
                top = nats.topk(min(likeliest, nats.shape[-1]))
                own = nats.gather(1, tokens[:, None].to(nats.device))[:, 0]  # (G',)
                parts.append((own.double(), top.indices, top.values.double()))
            yield Predictions(*(torch.cat(values).cpu().numpy() for values in zip(*parts, strict=True)))

    def _states_and_cache(self, inputs: Any, count: int) -> Tensor | None:
        """Return the states of the text with `count` tokens after it, and keep its cache; None if the model has none.

        Args:
            inputs: The text and these tokens, (1, T).
            count: Their number.
        """
        try:
            cache: Any = DynamicCache(config=self.model.unmodified.config)
            cached: dict[str, Any] = {**inputs, self._cache_name: cache, "use_cache": True}
            hidden = self.model.run_trunk(cached)  # (1, T, H)
            cache.crop(-count - 1)
            self._cache = cache if cache.get_seq_length() == len(self.text) - 1 else None
        except Exception as error:  # whatever a model with another cache raises
            reraise_out_of_memory(error)
            return None
        return hidden

    def log_probabilities(self, continuations: Sequence[Continuation], first_value: float | None = None) -> list[float]:
        """Return the log-probability of each of several continuations, in nats.

        The text is read once, and its keys and values are cached for the continuations. Where the first continuation
        gets another value than without the cache, or the model has no cache, all are computed without it.

        Args:
            continuations: The continuations.
            first_value: The log-probability of the first one, computed without a cache; by default it is computed here.
        """
        if len(set(continuations)) > 2 and self._caches:
            if first_value is None:
                (first_value,) = self._uncached(continuations[:1])
            cached = self._with_cache(continuations)
            if cached is not None and abs(cached[0] - first_value) <= TOLERANCE:
                return cached
        return self._uncached(continuations)

    def _uncached(self, continuations: Sequence[Continuation]) -> list[float]:
        """Return log-probabilities of continuations, each read with the whole text."""
        predicted = self.predictions([tuple(continuation.all_ids) for continuation in continuations], likeliest=0)
        pairs = zip(continuations, predicted, strict=True)
        return [float(predictions.nats[len(continuation.prefix) :].sum()) for continuation, predictions in pairs]

    @torch.inference_mode()
    def _with_cache(self, continuations: Sequence[Continuation]) -> list[float] | None:
        """Return the log-probabilities, computed with the text's cache; None if the model has none.

        Sorted continuations are read in batches, and what all of a batch begin with is read once.
        """
        model, text, module = self.model, self.text, self.model.unmodified
        context = torch.tensor([text.ids[:-1]], device=model.device)  # (1, T - 1)
        longest = max(len(continuation.all_ids) for continuation in continuations)
        rows = max(1, model.batch_tokens // (len(text) + longest))
        rows = min(rows, ROWS_ON_CPU) if model.device.type == "cpu" else rows
        order = sorted(range(len(continuations)), key=lambda place: continuations[place].all_ids)
        values: dict[int, float] = {}
        try:
            if self._cache is None:
                self._cache = module(input_ids=context, use_cache=True, **self._last_logits_only)[self._cache_name]
            for start in range(0, len(order), rows):
                places = order[start : start + rows]
                chunk = [continuations[place] for place in places]
                values |= dict(zip(places, self._continue_from_cache(chunk), strict=True))
        except Exception as error:  # whatever a model without a cache raises
            reraise_out_of_memory(error)
            return None
        return [values[place] for place in range(len(continuations))]

    def _continue_from_cache(self, continuations: Sequence[Continuation]) -> list[float]:
        """Return the log-probabilities of B continuations, from the cached keys and values."""
        module: Any = self.model.unmodified
        device, cache, cached = self.model.device, copy.deepcopy(self._cache), len(self.text) - 1
        sequences = [[self.text.ids[-1], *continuation.all_ids] for continuation in continuations]
        shortest = min(map(len, sequences)) - 1
        columns = zip(*(sequence[1:shortest] for sequence in sequences), strict=True)
        common = 1 + sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, columns))
        shared = torch.tensor([sequences[0][:common]], device=device)  # (1, c)
        returned = module(input_ids=shared, use_cache=True, **{self._cache_name: cache})
        first = returned.logits[0].float().log_softmax(-1)  # (c, V): of the tokens 1 to c of each sequence
        known = first[:-1].gather(1, shared[0, 1:, None])[:, 0]  # (c - 1,)
        branch = first[-1][[ids[common] for ids in sequences]]  # (B,)
        known = torch.cat([known.expand(len(sequences), -1), branch[:, None]], 1)  # (B, c)
        rest = [ids[common:] for ids in sequences]
        longest = max(map(len, rest))
        if longest > 1:
            cache = returned[self._cache_name]
            cache.batch_repeat_interleave(len(sequences))
            padded = [[*ids, *[self.model.pad_id] * (longest - len(ids))] for ids in rest]
            inputs = torch.tensor(padded, device=device)  # (B, n)
            read = cached + common
            mask = [[1] * (read + len(ids)) + [0] * (longest - len(ids)) for ids in rest]
            attended = torch.tensor(mask, device=device)[:, :-1]  # (B, T + n - 1): the last token predicts none
            logits: Tensor = module(
                input_ids=inputs[:, :-1], attention_mask=attended, use_cache=True, **{self._cache_name: cache}
            ).logits  # (B, n - 1, V)
            after = logits.float().log_softmax(-1).gather(2, inputs[:, 1:, None])[..., 0]  # (B, n - 1)
            known = torch.cat([known, after], 1)  # (B, c + n - 1)
        spans = [slice(len(continuation.prefix), len(continuation.all_ids)) for continuation in continuations]
        return [float(values[span].double().sum()) for values, span in zip(known, spans, strict=True)]
