"""Encodings as padded tensors: batches under a token budget, that shrinks when memory runs out."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from ..errors import InputError
from .anatomy import tolerance_for
from .encoding import Encoding

if TYPE_CHECKING:
    from .forward import TaskModel

__all__ = ["Batch", "batches", "collate", "in_batches", "out_of_memory"]

PADDING = 0.04
"""Most padding in a batch, as a share of its tokens: what a model computes there is thrown away."""

SMALL = 32
"""Padding tokens that cost less than another forward pass, whatever their share."""

STATES_AGREE = 1e-4
"""Difference that padding may make to a state, relative to the largest."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Batch:
    """Several encodings as padded tensors.

    Attributes:
        inputs: Model inputs, (B, T).
        mask: True at real tokens, (B, T).
        encodings: The B encodings.
        indices: Their places in the caller's list.
    """

    inputs: dict[str, Tensor]
    mask: Tensor
    encodings: list[Encoding]
    indices: list[int]

    @cached_property
    def padded(self) -> bool:
        """Whether there is any padding; known without asking the device."""
        return any(len(e) < self.mask.shape[1] for e in self.encodings)

    def real(self, values: Tensor) -> Tensor:
        """Take the real tokens of something that runs along all: (B, T, ...) to (N, ...)."""
        return values[self.mask] if self.padded else values.flatten(0, 1)

    def spread(self, values: Tensor) -> Tensor:
        """Put what belongs to the real tokens back in place, zero at padding: (N, ...) to (B, T, ...)."""
        if not self.padded:
            return values.view(*self.mask.shape, *values.shape[1:])
        full = values.new_zeros((*self.mask.shape, *values.shape[1:]))  # (B, T, ...)
        full[self.mask] = values
        return full

    @cached_property
    def texts(self) -> Tensor:
        """Which text each real token belongs to, (N,)."""
        rows = torch.arange(len(self.mask), device=self.mask.device)[:, None]  # (B, 1)
        return self.real(rows.expand(self.mask.shape))  # (N,)


def batches(encodings: Sequence[Encoding], budget: int, *, pad: bool = True) -> Iterator[list[int]]:
    """Group encodings of similar length, longest first.

    Texts x longest stays within `budget` tokens, and padding within 4% of them or a few tokens.

    Args:
        encodings: What to group.
        budget: Most tokens of a group, padding included.
        pad: Whether lengths may differ in a group at all.

    Yields:
        Places in `encodings`.
    """
    order = sorted(range(len(encodings)), key=lambda i: -len(encodings[i]))
    group: list[int] = []
    padding = 0
    for place in order:
        longest = len(encodings[group[0]]) if group else len(encodings[place])
        tokens = (len(group) + 1) * longest
        padding += longest - len(encodings[place])
        if group and (tokens > budget or padding > (max(SMALL, PADDING * tokens) if pad else 0)):
            yield group
            group, padding = [], 0
        group.append(place)
    if group:
        yield group


def in_batches(
    model: "TaskModel", encodings: Sequence[Encoding], work: Callable[[list[int]], Result]
) -> Iterator[tuple[list[int], Result]]:
    """Work through encodings in batches; when memory runs out, go on with half the token budget.

    The model keeps the smaller budget, so that the next call does not fail first. Models whose states change with
    padding get batches without any, so that a text's scores are the same alone and among others.

    Args:
        model: Holds the token budget.
        encodings: What to work through.
        work: Does the work on the encodings at some places.

    Yields:
        The places of each batch and the result of the work.

    Raises:
        InputError: If there is not enough memory for a single text.
    """
    pad = _may_pad(model, encodings)
    waiting = deque(batches(encodings, model.batch_tokens, pad=pad))
    while waiting:
        places = waiting[0]
        result = _tried(work, places)
        if result is not None:
            waiting.popleft()
            yield places, result
            continue
        longest = max(len(encodings[i]) for i in places)
        tokens = longest * len(places) if len(places) > 1 else model.batch_tokens
        smaller = max(min(model.batch_tokens, tokens) // 2, longest)
        if smaller >= model.batch_tokens:
            raise InputError(f"there is not enough memory to explain a single text of {longest} tokens")
        model.batch_tokens = smaller
        left = [i for group in waiting for i in group]
        waiting = deque([left[i] for i in group] for group in batches([encodings[i] for i in left], smaller, pad=pad))


def _may_pad(model: "TaskModel", encodings: Sequence[Encoding]) -> bool:
    """Whether the model's states stay as they are when padding follows a text; tried once, on the shortest texts."""
    by_length = {len(e): e for e in encodings}
    if model.ignores_padding is None and len(by_length) > 1:
        shortest = [by_length[length] for length in sorted(by_length)[:2]]
        model.ignores_padding = _tried(lambda some: _ignores_padding(model, some), shortest)
    return model.ignores_padding is not False


def _ignores_padding(model: "TaskModel", encodings: list[Encoding]) -> bool:
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


def collate(
    encodings: Sequence[Encoding], indices: list[int], *, pad_id: int, left: bool, device: torch.device
) -> Batch:
    """Pad encodings to one length.

    Args:
        encodings: The B encodings.
        indices: Their places in the caller's list.
        pad_id: Token id of padding.
        left: Pad on the left; for models that answer at the last position whatever stands there.
        device: Where the tensors go.
    """
    longest = max(len(e) for e in encodings)

    def padded(rows: Sequence[list[int]], filler: int = 0) -> Tensor:
        gaps = [[filler] * (longest - len(row)) for row in rows]
        filled = [gap + row if left else row + gap for row, gap in zip(rows, gaps, strict=True)]
        return torch.tensor(filled, device=device)  # (B, T)

    attended = padded([[1] * len(e) for e in encodings])  # (B, T)
    inputs = {
        name: padded([e.inputs[name] for e in encodings], pad_id if name == "input_ids" else 0)
        for name in encodings[0].inputs
    }
    return Batch(inputs | {"attention_mask": attended}, attended.bool(), list(encodings), indices)
