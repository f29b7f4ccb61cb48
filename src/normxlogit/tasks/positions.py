"""Positions: the token whose prediction is explained."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..inputs.batching import Batch
from ..inputs.encoding import Encoding
from ..inputs.texts import whole_number
from .targets import All

Place = int | str | tuple[int, int]
"""A token's index (negative from the end), a piece of the text, or a span of characters."""

Position = Place | Sequence[Place | None] | All | None
"""One place for all inputs, or a list with one for each; `ALL` for every place; None for the task's default."""


def locate(encodings: list[Encoding], position: Position) -> list[Encoding]:
    """Return the encodings with a note of the token whose prediction is to be explained."""
    if position is None:
        return encodings
    given: Any = position
    places = list(given) if _has_place_for_each(given) else [given] * len(encodings)
    if len(places) != len(encodings):
        raise InputError(f"{len(places)} positions for {len(encodings)} inputs; give one, or one for each")
    pairs = zip(encodings, places, strict=True)
    return [
        encoding if place is None else replace(encoding, position=_token_index(encoding, place))
        for encoding, place in pairs
    ]


def with_chosen_positions(batch: Batch, positions: Tensor) -> Tensor:
    """Return positions, (B,), with the default replaced wherever the caller chose one.

    Args:
        batch: The batch.
        positions: The default positions, (B,).
    """
    for row, encoding in enumerate(batch.encodings):
        if encoding.position is not None:
            positions[row] = batch.mask[row].nonzero()[encoding.position, 0]
    return positions


def last_tokens(batch: Batch) -> Tensor:
    """Return the position of each text's last token, (B,)."""
    places = torch.arange(batch.mask.shape[1], device=batch.mask.device)  # (T,)
    return (batch.mask * places).argmax(-1)


def logits_at(logits: Tensor, positions: Tensor) -> Tensor:
    """Return the logits at the explained positions.

    Args:
        logits: (B, T, C).
        positions: (B,), or (B, C) with a position for each output.

    Returns:
        (B, C).
    """
    index = positions if positions.ndim == 2 else positions[:, None].expand(-1, logits.shape[-1])  # (B, C)
    return logits.gather(1, index[:, None].to(logits.device)).squeeze(1)


def _has_place_for_each(position: Any) -> bool:
    """Return whether the argument is a list or an array with a place for each input; a tuple is one span."""
    return isinstance(position, list) or getattr(position, "ndim", 0) > 0


def _token_index(encoding: Encoding, position: Any) -> int:
    """Return the index of the token at a place; for a span of the text, of its first token."""
    count = len(encoding)
    place = _as_place(position)
    if isinstance(place, int):
        if not -count <= place < count:
            raise InputError(f"position {place} is outside the text's {count} tokens")
        return place % count
    if encoding.offsets is None or encoding.text is None:
        raise InputError("a position in characters needs the text and the character offsets of its tokens")
    start, end = place if isinstance(place, tuple) else _span_of(encoding.text, place)
    if not 0 <= start < end <= len(encoding.text):
        raise InputError(f"{start} to {end} is not a span of the text, which has {len(encoding.text)} characters")
    for index, (token_start, token_end) in enumerate(encoding.offsets):
        # Byte-level tokenizers count the space before a word as part of it, and a space alone is not a piece of a word.
        if encoding.sequence_ids[index] == 0 and encoding.text[max(token_start, start) : min(token_end, end)].strip():
            return index
    raise InputError(f"no token at characters {start} to {end} of the text")


def _as_place(position: Any) -> Place:
    """Return the caller's place with plain integers, or raise an error if it is not a place."""
    if isinstance(position, str):
        return position
    if isinstance(position, tuple) and len(position) == 2:
        start, end = map(whole_number, position)
        if start is not None and end is not None:
            return start, end
    elif (index := whole_number(position)) is not None:
        return index
    expected = "a token's index, a piece of the text, or its characters as (start, end)"
    raise InputError(f"a position is {expected}, not {position!r}")


def _span_of(text: str, piece: str) -> tuple[int, int]:
    """Return the span of a string that stands once in the text."""
    count = text.count(piece) if piece else 0
    if count != 1:
        amount = f"{count} times; give the characters as (start, end)" if count else "nowhere"
        raise InputError(f"the text must hold {piece!r} once; it stands there {amount}")
    start = text.index(piece)
    return start, start + len(piece)
