"""Feeding a model many encodings: batches that it can take, smaller ones when memory runs out."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from ..errors import InputError
from ..inputs.batching import batches
from ..inputs.columns import lengths_of
from ..inputs.encoding import Encoding
from ..surgery.parts import tolerance_for
from .task_model import TaskModel

__all__ = ["map_batches", "out_of_memory"]

STATES_AGREE = 1e-4
"""Difference that padding may make to a state, relative to the largest."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_batches(
    model: TaskModel, encodings: Sequence[Encoding], work: Callable[[list[int]], Result], share: int = 1
) -> Iterator[tuple[list[int], Result]]:
    """Work through encodings in batches; when memory runs out, go on with half the token budget.

    The model keeps the smaller budget, so that the next call does not fail first. Models whose states change with
    padding get batches without any, so that a text's scores are the same alone and among others.

    Args:
        model: Holds the token budget.
        encodings: What to work through.
        work: Does the work on the encodings at some places.
        share: How many times the memory of a plain pass the work takes.

    Yields:
        The places of each batch and the result of the work.

    Raises:
        InputError: If there is not enough memory for a single text.
    """
    pad = _may_pad(model, encodings)
    lengths = lengths_of(encodings)
    waiting = deque(batches(encodings, model.batch_tokens // share, pad=pad))
    while waiting:
        places = waiting[0]
        result = _tried(work, places)
        if result is not None:
            waiting.popleft()
            yield places, result
            continue
        longest = max(lengths[i] for i in places)
        tokens = longest * len(places) if len(places) > 1 else model.batch_tokens
        smaller = max(min(model.batch_tokens, tokens) // 2, longest)
        if smaller >= model.batch_tokens:
            raise InputError(f"there is not enough memory to explain a single text of {longest} tokens")
        model.batch_tokens = smaller
        left = [i for group in waiting for i in group]
        waiting = deque(
            [left[i] for i in group] for group in batches([encodings[i] for i in left], smaller // share, pad=pad)
        )


def _may_pad(model: TaskModel, encodings: Sequence[Encoding]) -> bool:
    """Whether the model's states stay as they are when padding follows a text; tried once, on the shortest texts."""
    by_length = {length: place for place, length in enumerate(lengths_of(encodings))}
    if model.ignores_padding is None and len(by_length) > 1:
        shortest = [encodings[by_length[length]] for length in sorted(by_length)[:2]]
        model.ignores_padding = _tried(lambda some: _ignores_padding(model, some), shortest)
    return model.ignores_padding is not False


def _ignores_padding(model: TaskModel, encodings: list[Encoding]) -> bool:
    with torch.inference_mode():
        alone = model.states(model.batch(encodings[:1], [0]))[0]  # (T, H)
        both = model.batch(encodings, [0, 1])
        padded = model.states(both)[0][both.mask[0]]  # (T, H)
    allowed = max(tolerance_for(alone), STATES_AGREE * alone.abs().max().item())
    return bool((padded - alone).abs().max() <= allowed)


def _tried(work: Callable[[list[Item]], Result], items: list[Item]) -> Result | None:
    """The result, None if memory ran out; by then everything that the work held is free again."""
    try:
        return work(items)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def out_of_memory(error: Exception) -> bool:
    """Whether an error means that the device or the machine had too little memory."""
    text = str(error)
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or "DefaultCPUAllocator" in text
        or "can't allocate memory" in text
    )
