"""`Batch`: encodings of similar length as padded tensors, within a budget of tokens."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .encoded_media import EncodedMedium
from .encoding import Encoding

MAX_PADDING_SHARE = 0.04
"""Most padding in a batch, as a share of its tokens."""

FREE_PADDING_TOKENS = 32
"""Padding tokens that cost less than another forward pass, whatever their share."""


@dataclass(frozen=True)
class Batch:
    """Several encodings as padded tensors.

    Attributes:
        inputs: Model inputs, (B, T).
        mask: True at real tokens, (B, T).
        indices: Those of the texts in the caller's list.
        beside_text: The names of inputs that are of the whole text, (B, ...), and none of its tokens'.
        arguments: Further arguments of the model that change no answer, such as a cache that a frozen pass fills.
    """

    inputs: dict[str, Tensor]
    mask: Tensor
    encodings: Sequence[Encoding]
    indices: list[int]
    beside_text: Collection[str] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def along_tokens(self, name: str) -> bool:
        """Return whether an input has a value, or several, for each token, (B, T) or (B, T, ...)."""
        if name in self.beside_text:
            return False
        return self.inputs[name].shape == self.mask.shape or name in self.encodings[0].inputs

    @cached_property
    def padded(self) -> bool:
        """Whether the batch has padding, computed without a transfer from the device."""
        return min(map(len, self.encodings)) < self.mask.shape[1]

    @cached_property
    def starts(self) -> list[int]:
        """How many tokens of padding stand before each text."""
        return self.mask.int().argmax(-1).tolist() if self.padded else [0] * len(self.encodings)

    @property
    def has_source(self) -> bool:
        """Whether the pass runs an encoder on a source too, beside the decoder on these tokens."""
        return "source" in self.inputs

    @property
    def source_is_signal(self) -> bool:
        """Whether the source is not a text: its embeddings are not those of tokens."""
        return self.has_source and self.encodings[0].signal is not None

    def real(self, values: Tensor) -> Tensor:
        """Return the values at real tokens: (B, T, ...) to (N, ...)."""
        return values[self.mask] if self.padded else values.flatten(0, 1)

    def spread(self, values: Tensor) -> Tensor:
        """Return values of real tokens in the shape of the batch, zero at padding: (N, ...) to (B, T, ...)."""
        if not self.padded:
            return values.view(*self.mask.shape, *values.shape[1:])
        full = values.new_zeros((*self.mask.shape, *values.shape[1:]))  # (B, T, ...)
        full[self.mask] = values
        return full

    def rows(self, rows: slice, length: int | None = None) -> "Batch":
        """Return some texts of the batch, padding included, with their first `length` tokens or all."""
        inputs = {name: value[rows] if length is None else value[rows, :length] for name, value in self.inputs.items()}
        return replace(
            self,
            inputs=inputs,
            mask=self.mask[rows, :length],
            encodings=self.encodings[rows],
            indices=self.indices[rows],
        )

    @cached_property
    def media(self) -> tuple[EncodedMedium, ...]:
        """The pictures and sounds of a batch of one text; () if it has none."""
        return self.encodings[0].media if len(self.encodings) == 1 else ()

    @cached_property
    def placeholder_mask(self) -> Tensor | None:
        """The placeholder tokens of pictures and sounds, (1, T); None if there are none, or several texts."""
        tokens = [token for medium in self.media for token in medium.tokens]
        if not tokens:
            return None
        placeholders = torch.zeros_like(self.mask)  # (1, T): a text with media is a batch by itself
        placeholders[:, tokens] = True
        return placeholders

    @cached_property
    def texts(self) -> Tensor:
        """Which text each real token belongs to, (N,)."""
        rows = torch.arange(len(self.mask), device=self.mask.device)[:, None]  # (B, 1)
        return self.real(rows.expand(self.mask.shape))  # (N,)


def sizes_of(encodings: Sequence[Encoding]) -> list[int]:
    """Return the number of tokens of each encoding, with those of its source."""
    return [len(encoding) + (0 if encoding.source is None else len(encoding.source)) for encoding in encodings]


def batches(encodings: Sequence[Encoding], budget: int, *, pad: bool = True) -> Iterator[list[int]]:
    """Yield groups of encodings of similar length, longest first, by their indices.

    Texts x longest stays within `budget` tokens, and padding within 4% of them or a few tokens.

    Args:
        encodings: The encodings.
        budget: Most tokens of a group, padding included; a longer text is a group of its own.
        pad: Whether texts of different lengths may be together; otherwise a group has one length.
    """
    lengths = sizes_of(encodings)
    padding = 0
    group: list[int] = []
    # The longest first: the first text of a group is its longest, and has no padding.
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        longest = lengths[group[0]] if group else lengths[index]
        tokens = (len(group) + 1) * longest
        padding += longest - lengths[index]
        allowed_padding = max(FREE_PADDING_TOKENS, MAX_PADDING_SHARE * tokens) if pad else 0
        if group and (tokens > budget or padding > allowed_padding):
            yield group
            group = []
            padding = 0
        group.append(index)
    if group:
        yield group


def collate(
    encodings: Sequence[Encoding], indices: list[int], *, pad_id: int, left: bool, device: torch.device
) -> Batch:
    """Return B encodings as tensors on a device, padded to one length, with their indices in the caller's list.

    Models that answer at the last position whatever stands there are padded on the left.

    Args:
        encodings: The encodings.
        indices: The place of each in the list.
        pad_id: The token id that stands at padding.
        left: Whether padding stands before a text, not behind it.
        device: Where the tensors are.
    """
    lengths = np.array(list(map(len, encodings)))[:, None]  # (B, 1)
    longest = int(lengths.max())
    token_places = np.arange(longest)  # (T,)
    mask = token_places >= longest - lengths if left else token_places < lengths  # (B, T)
    arrays = {"attention_mask": mask.astype(np.int64)}  # (B, T)
    for name in encodings[0].inputs:
        numbers = np.array([value for encoding in encodings for value in encoding.inputs[name]])  # (N,) or (N, ...)
        padded = np.full((*mask.shape, *numbers.shape[1:]), pad_id if name == "input_ids" else 0, np.int64)  # (B, T)
        padded[mask] = numbers
        arrays[name] = padded
    inputs = on_device(arrays, device)
    return Batch(inputs, inputs["attention_mask"].bool(), encodings, indices)


def on_device(arrays: Mapping[str, npt.NDArray[np.int64]], device: torch.device) -> dict[str, Tensor]:
    """Bring arrays to a device in one transfer, which the host does not wait for."""
    flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays.values()]))
    if device.type == "cuda":
        flat = flat.pin_memory()  # without which a transfer is waited for
    parts = flat.to(device, non_blocking=True).split([array.size for array in arrays.values()])
    return {name: part.view(array.shape) for (name, array), part in zip(arrays.items(), parts, strict=True)}
