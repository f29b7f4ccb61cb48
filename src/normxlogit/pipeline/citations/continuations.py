"""The log-probabilities of several continuations of one text, which is read once."""

import copy
import inspect
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...copies.memory import reraise_out_of_memory
from ...inputs.append_tokens import append_tokens
from ...inputs.encoding import Encoding
from ...methods.perturbation import PerturbedAnswers
from ...model.task_model import TaskModel
from ..completions.ablations import log_probabilities

TOLERANCE = 0.05
"""Nats by which the first continuation may differ when keys and values are read from a cache."""


class Continuation(NamedTuple):
    """Token ids that follow a text.

    Attributes:
        prefix: Those right behind the text, which count as read.
        ids: Those whose log-probability is asked for, behind them.
    """

    prefix: tuple[int, ...]
    ids: tuple[int, ...]

    @property
    def all(self) -> list[int]:
        """Both."""
        return [*self.prefix, *self.ids]


def continuation_log_probabilities(
    model: TaskModel, before: Encoding, continuations: Sequence[Continuation], first: float | None = None
) -> list[float]:
    """Return the log-probability of each of several continuations of a text, in nats.

    The text is read once, and its keys and values are kept for the continuations. What the first of these has is
    compared with its value in the whole text; where the two differ, as of models that keep no such cache, all are read
    whole.

    Args:
        model: A language model.
        before: The text; of an encoder-decoder model what the decoder reads, with the source.
        continuations: The continuations.
        first: The value of the first one in the whole text; by default it is read.
    """
    without_cache = WholeTexts(model, before)
    if len(set(continuations)) < 3 or before.source is not None or before.media or len(before) < 2:
        return without_cache(continuations)
    if first is None:
        (first,) = without_cache(continuations[:1])
    cached = _cached(model, before, continuations)
    if cached is None or not abs(cached[0] - first) <= TOLERANCE:
        return without_cache(continuations)
    return cached


class WholeTexts(PerturbedAnswers[Continuation, float]):
    """The log-probabilities of continuations, each read with the whole text before it.

    Args:
        model: A language model.
        before: The text.
    """

    def __init__(self, model: TaskModel, before: Encoding) -> None:
        super().__init__(model, lambda following: append_tokens(model.tokenizer, before, following.all), self._sums)

    def _sums(self, encodings: list[Encoding], keys: list[Continuation]) -> Iterable[float]:
        batch = self.model.batch(encodings, list(range(len(encodings))))
        hidden = self.model.states(batch)  # (B, T, H)
        sums = []
        for row, (mask, following) in enumerate(zip(batch.mask, keys, strict=True)):
            count = len(following.ids)
            states = hidden[row][mask][-count - 1 : -1]  # (n, H)
            targets = batch.inputs["input_ids"][row][mask][-count:]  # (n,)
            sums.append(float(log_probabilities(self.model, states, targets).double().sum()))
        return sums


@torch.inference_mode()
def _cached(model: TaskModel, before: Encoding, keys: Sequence[Continuation]) -> list[float] | None:
    """Return the log-probabilities by a cache of the text's keys and values; None where the model has none."""
    module, device = model.unmodified, model.device
    parameters = inspect.signature(type(module).forward).parameters
    one_row = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
    cache_name = "cache" if "cache" in parameters else "past_key_values"  # before transformers 5.24
    context = torch.tensor([before.ids[:-1]], device=device)  # (1, T - 1)
    at_once = max(1, model.budget.tokens // (len(before) + max(len(following.all) for following in keys)))
    sums: list[float] = []
    try:
        cache = module(input_ids=context, use_cache=True, **one_row)[cache_name]
        for start in range(0, len(keys), at_once):
            some = keys[start : start + at_once]
            repeated = copy.deepcopy(cache)
            repeated.batch_repeat_interleave(len(some))
            sums += _continued(module, {cache_name: repeated}, context.shape[1], before.ids[-1], some, model.pad_id)
    except Exception as error:  # whatever a model without a cache raises
        reraise_out_of_memory(error)
        return None
    return sums


def _continued(
    module: Any, cache: dict[str, Any], context_length: int, last: int, keys: Sequence[Continuation], pad: int
) -> list[float]:
    """Return the log-probabilities of continuations of what a cache holds, (B,), and one more token.

    Args:
        module: The model.
        cache: The keys and values, B times, by the name of the model's argument; they are written on.
        context_length: How many tokens they are of.
        last: The token after these, which is read first.
        keys: The continuations.
        pad: A token for padding.
    """
    device = next(module.parameters()).device
    sequences = [following.all for following in keys]
    longest = max(map(len, sequences))
    rows = [[last, *ids, *[pad] * (longest - len(ids))] for ids in sequences]
    mask = [[1] * (context_length + 1 + len(ids)) + [0] * (longest - len(ids)) for ids in sequences]
    inputs = torch.tensor(rows, device=device)  # (B, n + 1)
    attended = torch.tensor(mask, device=device)  # (B, T + n)
    logits: Tensor = module(input_ids=inputs, attention_mask=attended, use_cache=True, **cache).logits
    token_log_probabilities = logits[:, :-1].float().log_softmax(-1).gather(2, inputs[:, 1:, None])[..., 0]  # (B, n)
    spans = [slice(len(following.prefix), len(following.all)) for following in keys]
    return [float(values[span].double().sum()) for values, span in zip(token_log_probabilities, spans, strict=True)]
