"""Encodings as padded tensors: batches under a token budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .encoding import Encoding

__all__ = ["Batch", "batches", "collate"]


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


def batches(encodings: Sequence[Encoding], budget: int) -> Iterator[list[int]]:
    """Group encodings of similar length, longest first, so that texts x longest stays within `budget` tokens.

    Yields:
        Places in `encodings`.
    """
    order = sorted(range(len(encodings)), key=lambda i: -len(encodings[i]))
    group: list[int] = []
    for place in order:
        if group and (len(group) + 1) * len(encodings[group[0]]) > budget:
            yield group
            group = []
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
    longest = max(map(len, encodings))
    names = encodings[0].inputs.keys()

    def padded(values: Sequence[int], fill: int) -> list[int]:
        gap = [fill] * (longest - len(values))
        return [*gap, *values] if left else [*values, *gap]

    mask = torch.tensor([padded([1] * len(e), 0) for e in encodings], device=device)  # (B, T)
    inputs = {
        name: torch.tensor(
            [padded(e.inputs[name], pad_id if name == "input_ids" else 0) for e in encodings], device=device
        )
        for name in names
    }
    return Batch(inputs | {"attention_mask": mask}, mask.bool(), list(encodings), indices)
