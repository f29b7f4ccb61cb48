"""Encodings as padded tensors, in groups under a token budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .encoding import Encoding

__all__ = ["Batch", "batches", "collate"]

PADDING = 0.04
"""Most padding in a batch, as a share of its tokens: what a model computes there is thrown away."""

SMALL = 32
"""Padding tokens that cost less than another forward pass, whatever their share."""


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
