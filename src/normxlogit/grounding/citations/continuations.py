"""The log-probabilities of several continuations of one text, with its keys and values from a cache."""

import copy
import inspect
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...copies.memory import reraise_out_of_memory
from ...inputs.alignment import append_tokens
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Outcomes, in_batches
from ...model.task_model import TaskModel
from ...parts.headpiece import TOKENS_AT_ONCE
from ...pipeline.completions.ablations import Array, log_probabilities

TOLERANCE = 0.05
"""Most nats by which a log-probability computed with a cache may differ."""

ROWS_ON_CPU = 16
"""Most continuations in a batch on a CPU: sorted ones share their beginnings, which are read once."""


class Continuation(NamedTuple):
    """Token ids that follow a text.

    Attributes:
        prefix: The first of them, which are only context.
        ids: The ones after these, whose log-probability is measured.
    """

    prefix: tuple[int, ...]
    ids: tuple[int, ...]

    @property
    def all_ids(self) -> list[int]:
        """The prefix and the ids after it."""
        return [*self.prefix, *self.ids]


@torch.inference_mode()
def token_predictions(
    model: TaskModel, encodings: list[Encoding], counts: Sequence[int], likeliest: int
) -> Iterator[tuple[Array, npt.NDArray[np.int64], Array]]:
    """Yield the log-probabilities of the last tokens of each text, and the likeliest tokens in their places.

    Args:
        model: A language model.
        encodings: The texts, read in one batch.
        counts: How many tokens of each.
        likeliest: How many tokens are compared.

    Yields:
        Log-probabilities, (G,); ids and log-probabilities of the likeliest tokens, (G, k) each.
    """
    batch = model.batch(encodings, list(range(len(encodings))))
    hidden = model.states(batch)  # (B, T, H)
    for row, (mask, count) in enumerate(zip(batch.mask, counts, strict=True)):
        states = hidden[row][mask][-count - 1 : -1]  # (G, H)
        ids = batch.inputs["input_ids"][row][mask][-count:]  # (G,)
        parts = []
        for some, tokens in zip(states.split(TOKENS_AT_ONCE), ids.split(TOKENS_AT_ONCE), strict=True):
            nats = model.head.tokens(some).float().log_softmax(-1)  # (G', V)
            top = nats.topk(min(likeliest, nats.shape[-1]))
            own = nats.gather(1, tokens[:, None].to(nats.device))[:, 0]  # (G',)
            parts.append((own.double(), top.indices, top.values.double()))
        log_probability, top_ids, top_values = (torch.cat(values).cpu() for values in zip(*parts, strict=True))
        yield log_probability.numpy(), top_ids.numpy(), top_values.numpy()


def continuation_log_probabilities(
    model: TaskModel, text: Encoding, continuations: Sequence[Continuation], first_value: float | None = None
) -> list[float]:
    """Return the log-probability of each of several continuations of a text, in nats.

    The model reads the text once, and its keys and values are cached for the continuations. Where the first
    continuation gets another value than without the cache, or the model has no cache, every continuation is computed
    without it.

    Args:
        model: A language model.
        text: The text; for an encoder-decoder model the tokens that the decoder reads, with the source.
        continuations: The continuations.
        first_value: The log-probability of the first one, computed without a cache; by default it is computed here.
    """
    uncached = uncached_log_probabilities(model, text)
    if len(set(continuations)) > 2 and text.source is None and not text.media and len(text) > 1:
        if first_value is None:
            (first_value,) = uncached(continuations[:1])
        cached = _with_cache(model, text, continuations)
        if cached is not None and abs(cached[0] - first_value) <= TOLERANCE:
            return cached
    return uncached(continuations)


def uncached_log_probabilities(model: TaskModel, text: Encoding) -> Outcomes[Continuation, float]:
    """Return what computes log-probabilities of continuations without a cache: each is read with the whole text."""

    def read(encodings: list[Encoding], continuations: list[Continuation]) -> Iterable[float]:
        counts = [len(continuation.ids) for continuation in continuations]
        return [float(values.sum()) for values in log_probabilities(model, encodings, counts)]

    return Outcomes(
        in_batches(model, lambda continuation: append_tokens(model.tokenizer, text, continuation.all_ids), read)
    )


@torch.inference_mode()
def _with_cache(model: TaskModel, text: Encoding, continuations: Sequence[Continuation]) -> list[float] | None:
    """Return the log-probabilities, computed with a cache of the text's keys and values; None if the model has none.

    Sorted continuations are read in batches, and what all of a batch begin with is read once.
    """
    module, device = model.unmodified, model.device
    parameters = inspect.signature(type(module).forward).parameters
    last_logits_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
    cache_name = "cache" if "cache" in parameters else "past_key_values"  # before transformers 5.24
    context = torch.tensor([text.ids[:-1]], device=device)  # (1, T - 1)
    longest = max(len(continuation.all_ids) for continuation in continuations)
    rows = max(1, model.batch_tokens // (len(text) + longest))
    rows = min(rows, ROWS_ON_CPU) if device.type == "cpu" else rows
    order = sorted(range(len(continuations)), key=lambda place: continuations[place].all_ids)
    values: dict[int, float] = {}
    try:
        cache = module(input_ids=context, use_cache=True, **last_logits_only)[cache_name]
        for start in range(0, len(order), rows):
            places = order[start : start + rows]
            chunk = [continuations[place] for place in places]
            sums = _continue_from_cache(
                module, cache_name, copy.deepcopy(cache), context.shape[1], text.ids[-1], chunk, model.pad_id
            )
            values |= dict(zip(places, sums, strict=True))
    except Exception as error:  # whatever a model without a cache raises
        reraise_out_of_memory(error)
        return None
    return [values[place] for place in range(len(continuations))]


def _continue_from_cache(
    module: Any,
    cache_name: str,
    cache: Any,
    context_length: int,
    last_id: int,
    continuations: Sequence[Continuation],
    pad_id: int,
) -> list[float]:
    """Return the log-probabilities of B continuations of a text whose keys and values are cached.

    Args:
        module: The model.
        cache_name: The name of the model's argument for the cache.
        cache: The keys and values, which are extended.
        context_length: The number of tokens in the cache: all but the last one of the text.
        last_id: The last token of the text.
        continuations: The continuations.
        pad_id: A token for padding.
    """
    device = next(module.parameters()).device
    sequences = [[last_id, *continuation.all_ids] for continuation in continuations]
    shortest = min(map(len, sequences)) - 1
    columns = zip(*(sequence[1:shortest] for sequence in sequences), strict=True)
    common = 1 + sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, columns))
    shared = torch.tensor([sequences[0][:common]], device=device)  # (1, c)
    returned = module(input_ids=shared, use_cache=True, **{cache_name: cache})
    first = returned.logits[0].float().log_softmax(-1)  # (c, V): of the tokens 1 to c of each sequence
    known = first[:-1].gather(1, shared[0, 1:, None])[:, 0]  # (c - 1,)
    branch = first[-1][[ids[common] for ids in sequences]]  # (B,)
    known = torch.cat([known.expand(len(sequences), -1), branch[:, None]], 1)  # (B, c)
    rest = [ids[common:] for ids in sequences]
    longest = max(map(len, rest))
    if longest > 1:
        cache = returned[cache_name]
        cache.batch_repeat_interleave(len(sequences))
        inputs = torch.tensor([[*ids, *[pad_id] * (longest - len(ids))] for ids in rest], device=device)  # (B, n)
        read = context_length + common
        mask = [[1] * (read + len(ids)) + [0] * (longest - len(ids)) for ids in rest]
        attended = torch.tensor(mask, device=device)[:, :-1]  # (B, T + n - 1): the last token predicts none
        logits: Tensor = module(
            input_ids=inputs[:, :-1], attention_mask=attended, use_cache=True, **{cache_name: cache}
        ).logits  # (B, n - 1, V)
        after = logits.float().log_softmax(-1).gather(2, inputs[:, 1:, None])[..., 0]  # (B, n - 1)
        known = torch.cat([known, after], 1)  # (B, c + n - 1)
    spans = [slice(len(continuation.prefix), len(continuation.all_ids)) for continuation in continuations]
    return [float(values[span].double().sum()) for values, span in zip(known, spans, strict=True)]
