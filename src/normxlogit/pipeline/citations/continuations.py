"""The log-probabilities of several continuations of one text, with its keys and values from a cache."""

import copy
import inspect
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...copies.memory import reraise_out_of_memory
from ...inputs.alignment import append_tokens
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Outcomes, in_batches
from ...model.task_model import TaskModel
from ..completions.ablations import log_probabilities

TOLERANCE = 0.05
"""Most nats by which a log-probability computed with a cache may differ."""


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


def continuation_log_probabilities(
    model: TaskModel, text: Encoding, continuations: Sequence[Continuation], first_value: float | None = None
) -> list[float]:
    """Return the log-probability of each of several continuations of a text, in nats.

    The model reads the text once, and its keys and values are cached for the continuations. As a check, the first
    continuation is also computed without the cache. Where the two values differ, or the model has no cache, every
    continuation is computed without it.

    Args:
        model: A language model.
        text: The text; for an encoder-decoder model the tokens that the decoder reads, with the source.
        continuations: The continuations.
        first_value: The log-probability of the first one, computed without a cache; by default it is computed here.
    """
    without_cache = uncached_log_probabilities(model, text)
    if len(set(continuations)) < 3 or text.source is not None or text.media or len(text) < 2:
        return without_cache(continuations)
    if first_value is None:
        (first_value,) = without_cache(continuations[:1])
    cached = _with_cache(model, text, continuations)
    if cached is None or not abs(cached[0] - first_value) <= TOLERANCE:
        return without_cache(continuations)
    return cached


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
    """Return the log-probabilities, computed with a cache of the text's keys and values; None if the model has none."""
    module, device = model.unmodified, model.device
    parameters = inspect.signature(type(module).forward).parameters
    last_logits_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
    cache_name = "cache" if "cache" in parameters else "past_key_values"  # before transformers 5.24
    context = torch.tensor([text.ids[:-1]], device=device)  # (1, T - 1)
    chunk_size = max(
        1, model.budget.tokens // (len(text) + max(len(continuation.all_ids) for continuation in continuations))
    )
    sums: list[float] = []
    try:
        cache = module(input_ids=context, use_cache=True, **last_logits_only)[cache_name]
        for start in range(0, len(continuations), chunk_size):
            chunk = continuations[start : start + chunk_size]
            repeated = copy.deepcopy(cache)
            repeated.batch_repeat_interleave(len(chunk))
            sums += _continue_from_cache(
                module, {cache_name: repeated}, context.shape[1], text.ids[-1], chunk, model.pad_id
            )
    except Exception as error:  # whatever a model without a cache raises
        reraise_out_of_memory(error)
        return None
    return sums


def _continue_from_cache(
    module: Any,
    cache: dict[str, Any],
    context_length: int,
    last_id: int,
    continuations: Sequence[Continuation],
    pad_id: int,
) -> list[float]:
    """Return the log-probabilities of B continuations of a text whose keys and values are cached.

    Args:
        module: The model.
        cache: The keys and values, repeated B times, under the name of the model's argument; the model extends them.
        context_length: The number of tokens in the cache: all but the last one of the text.
        last_id: The last token of the text.
        continuations: The continuations.
        pad_id: A token for padding.
    """
    device = next(module.parameters()).device
    sequences = [continuation.all_ids for continuation in continuations]
    longest = max(map(len, sequences))
    rows = [[last_id, *ids, *[pad_id] * (longest - len(ids))] for ids in sequences]
    mask = [[1] * (context_length + 1 + len(ids)) + [0] * (longest - len(ids)) for ids in sequences]
    inputs = torch.tensor(rows, device=device)  # (B, n + 1)
    attended = torch.tensor(mask, device=device)  # (B, T + n)
    logits: Tensor = module(input_ids=inputs, attention_mask=attended, use_cache=True, **cache).logits
    token_log_probabilities = logits[:, :-1].float().log_softmax(-1).gather(2, inputs[:, 1:, None])[..., 0]  # (B, n)
    spans = [slice(len(continuation.prefix), len(continuation.all_ids)) for continuation in continuations]
    return [float(values[span].double().sum()) for values, span in zip(token_log_probabilities, spans, strict=True)]
