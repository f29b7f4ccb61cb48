"""What a model makes of continuations of one text, with the text's keys and values from a cache."""

import copy
import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache

from ...copies.memory import reraise_out_of_memory
from ...inputs.alignment import append_tokens
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Outcomes, in_batches
from ...model.task_model import TaskModel
from ...parts.headpiece import TOKENS_AT_ONCE
from ...pipeline.completions.leave_out import Array

TOLERANCE = 0.05
"""Most nats by which a log-probability computed with a cache may differ."""

ROWS_ON_CPU = 16
"""Most continuations in a batch on a CPU: sorted ones share their beginnings, which are read once."""

Ids = tuple[int, ...]


class Continuation(NamedTuple):
    """Token ids that follow a text: first those that are only context, then those whose probability is measured."""

    prefix: Ids
    ids: Ids


class Predictions(NamedTuple):
    """What a model predicts at the places of n tokens."""

    nats: Array  # log-probabilities of the tokens, (n,)
    likeliest_ids: npt.NDArray[np.int64]  # the likeliest tokens there, (n, k)
    likeliest_nats: Array  # their log-probabilities, (n, k)


class ContinuedText:
    """A text (what the decoder reads, if there is an encoder), and what a language model makes of its continuations."""

    def __init__(self, model: TaskModel, text: Encoding) -> None:
        self.model, self.text = model, text
        parameters = inspect.signature(type(model.unmodified).forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"  # before transformers 5.24
        self._last_logits_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self._caches = text.source is None and not text.media and len(text) > 1
        self._cache: Any = None
        """The keys and values of all tokens of the text but the last one."""

    def predictions(self, continuations: Sequence[Ids], likeliest: int) -> list[Predictions]:
        """Return what the model predicts at the places of the continuations' tokens, with some of the likeliest there.

        They come from whole passes. Of a single continuation the pass also gives the cache of the text.
        """

        def continued(ids: Ids) -> Encoding:
            return append_tokens(self.model.tokenizer, self.text, list(ids))

        read = partial(self._predictions, likeliest=likeliest)
        return Outcomes(in_batches(self.model, continued, read))(continuations)

    @torch.inference_mode()
    def _predictions(self, encodings: list[Encoding], ids: list[Ids], likeliest: int) -> Iterator[Predictions]:
        counts = [*map(len, ids)]
        batch = self.model.batch(encodings, list(range(len(encodings))))
        self.model.prepare(batch)
        hidden = self._states_and_cache(batch.inputs, counts[0]) if len(encodings) == 1 and self._caches else None
        hidden = self.model.states(batch) if hidden is None else hidden  # (B, T, H)
        for row, (mask, count) in enumerate(zip(batch.mask, counts, strict=True)):
            states = hidden[row][mask][-count - 1 : -1]  # (G, H)
            own_ids = batch.inputs["input_ids"][row][mask][-count:]  # (G,)
            parts = []
            for some, tokens in zip(states.split(TOKENS_AT_ONCE), own_ids.split(TOKENS_AT_ONCE), strict=True):
                nats = self.model.head.tokens(some).float().log_softmax(-1)  # (G', V)
                top = nats.topk(min(likeliest, nats.shape[-1]))
                own = nats.gather(1, tokens[:, None].to(nats.device))[:, 0]  # (G',)
                parts.append((own.double(), top.indices, top.values.double()))
            yield Predictions(*(torch.cat(values).cpu().numpy() for values in zip(*parts, strict=True)))

    def _states_and_cache(self, inputs: Any, count: int) -> Tensor | None:
        """Return the states of the text with `count` tokens after it, (1, T), and keep its cache, if there is one."""
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

    def log_probabilities(self, continuations: Sequence[Continuation], first_value: float) -> list[float]:
        """Return the log-probability of each of several distinct continuations, in nats.

        The text is read once, and its keys and values are cached. Where the first continuation gets another value than
        `first_value`, which was computed without the cache, or the model has none, all are computed without it.
        """
        cached = self._with_cache(continuations) if len(continuations) > 2 and self._caches else None
        if cached is not None and abs(cached[0] - first_value) <= TOLERANCE:
            return cached
        predicted = self.predictions([prefix + ids for prefix, ids in continuations], likeliest=0)
        return [float(p.nats[len(c.prefix) :].sum()) for c, p in zip(continuations, predicted, strict=True)]

    @torch.inference_mode()
    def _with_cache(self, continuations: Sequence[Continuation]) -> list[float] | None:
        """Return the log-probabilities, computed with the text's cache; None if the model has none."""
        module, context = self.model.unmodified, torch.tensor([self.text.ids[:-1]], device=self.model.device)
        ordered = sorted(continuations, key=lambda continuation: continuation.prefix + continuation.ids)
        longest = max(len(prefix) + len(ids) for prefix, ids in ordered)
        rows = max(1, self.model.batch_tokens // (len(self.text) + longest))
        rows = min(rows, ROWS_ON_CPU) if self.model.device.type == "cpu" else rows
        nats: dict[Continuation, float] = {}
        try:
            if self._cache is None:
                self._cache = module(input_ids=context, use_cache=True, **self._last_logits_only)[self._cache_name]
            for start in range(0, len(ordered), rows):
                chunk = ordered[start : start + rows]
                nats |= zip(chunk, self._continue_from_cache(chunk), strict=True)
        except Exception as error:  # whatever a model without a cache raises
            reraise_out_of_memory(error)
            return None
        return [nats[continuation] for continuation in continuations]

    def _continue_from_cache(self, continuations: Sequence[Continuation]) -> list[float]:
        """Return the log-probabilities of B continuations from the cache; what all begin with is read once."""
        module: Any = self.model.unmodified
        device, cache, cached = self.model.device, copy.deepcopy(self._cache), len(self.text) - 1
        sequences = [[self.text.ids[-1], *prefix, *ids] for prefix, ids in continuations]
        lengths = torch.tensor([*map(len, sequences)], device=device)  # (B,)
        tensors = [torch.tensor(sequence, device=device) for sequence in sequences]
        ids = pad_sequence(tensors, batch_first=True, padding_value=self.model.pad_id)  # (B, n)
        is_same = (ids == ids[0]).all(0)[: lengths.min() - 1]
        common = int(is_same.cumprod(0).sum())  # c
        returned = module(input_ids=ids[:1, :common], use_cache=True, **{self._cache_name: cache})
        first = returned.logits.float().log_softmax(-1)  # (1, c, V)
        nats = first.expand(len(ids), -1, -1).gather(2, ids[:, 1 : common + 1, None])  # (B, c, 1)
        if common + 1 < ids.shape[1]:
            cache = returned[self._cache_name]
            cache.batch_repeat_interleave(len(ids))
            places = torch.arange(cached + ids.shape[1] - 1, device=device)  # the last token predicts none
            attended = (places < cached + lengths[:, None]).long()  # (B, T + n - 2)
            logits = module(
                input_ids=ids[:, common:-1], attention_mask=attended, use_cache=True, **{self._cache_name: cache}
            ).logits  # (B, n - c - 1, V)
            after = logits.float().log_softmax(-1).gather(2, ids[:, common + 1 :, None])  # (B, n - c - 1, 1)
            nats = torch.cat([nats, after], 1)  # (B, n - 1, 1)
        spans = [slice(len(prefix), len(prefix) + len(ids)) for prefix, ids in continuations]
        return [float(values[span].double().sum()) for values, span in zip(nats[..., 0], spans, strict=True)]
