"""Encodings with their tokens as a few arrays, for the tables of corpora."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .encoding import Encoding

IntArray = npt.NDArray[np.integer[Any]]

SPECIAL = -1
"""The sequence id of special tokens."""


class EncodingColumns(Sequence[Encoding]):
    """B encodings whose offsets are known, and their N tokens together as arrays."""

    def __init__(self, encodings: Iterable[Encoding]) -> None:
        self._encodings = list(encodings)

    def __len__(self) -> int:
        return len(self._encodings)

    @overload
    def __getitem__(self, index: int) -> Encoding: ...
    @overload
    def __getitem__(self, index: slice) -> "EncodingColumns": ...
    def __getitem__(self, index: int | slice) -> "Encoding | EncodingColumns":
        """Return one encoding, or some as columns."""
        return EncodingColumns(self._encodings[index]) if isinstance(index, slice) else self._encodings[index]

    def take(self, indices: Iterable[int]) -> "EncodingColumns":
        """Return some of the texts."""
        return EncodingColumns(self._encodings[index] for index in indices)

    @cached_property
    def lengths(self) -> IntArray:
        """Return how many tokens each text has, (B,)."""
        return np.array([len(encoding) for encoding in self._encodings], np.int64)

    @cached_property
    def bounds(self) -> IntArray:
        """Return where each text's tokens start, and N at the end, (B + 1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @cached_property
    def ids(self) -> IntArray:
        """Return the token ids, (N,)."""
        return np.array([token_id for encoding in self._encodings for token_id in encoding.ids], np.int64)

    @cached_property
    def offsets(self) -> IntArray:
        """Return the character spans, (N, 2)."""
        return _spans(encoding.offsets or () for encoding in self._encodings)

    @cached_property
    def words(self) -> IntArray | None:
        """Return the characters of the words that the caller has split, (N, 2); None for texts that were not split."""
        if not any(encoding.words for encoding in self._encodings):
            return None
        return _spans(encoding.words or ((0, 0),) * len(encoding) for encoding in self._encodings)

    @cached_property
    def sequences(self) -> IntArray:
        """Return 0 or 1, and -1 for special tokens, (N,)."""
        sequences = (sequence for encoding in self._encodings for sequence in encoding.sequence_ids)
        return np.array([SPECIAL if sequence is None else sequence for sequence in sequences], np.int8)

    @cached_property
    def notes(self) -> dict[int, tuple[str, ...]]:
        """Return the notes on some of the texts, by their index."""
        return {index: encoding.notes for index, encoding in enumerate(self._encodings) if encoding.notes}


def _spans(rows: Iterable[Iterable[tuple[int, int]]]) -> IntArray:
    """Return the spans of all texts, one text after the other, (N, 2)."""
    return np.array([span for spans in rows for span in spans], np.int32).reshape(-1, 2)
