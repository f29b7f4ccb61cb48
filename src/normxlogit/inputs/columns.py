"""Many encodings as a few arrays, without a Python object for each token, for corpora."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

from .encoding import Encoding, readable_tokens

IntArray = npt.NDArray[np.integer[Any]]

SPECIAL = -1
"""The sequence id of special tokens."""


@dataclass(frozen=True)
class EncodingColumns(Sequence[Encoding]):
    """B encodings of N tokens together, as arrays; indexing one makes an `Encoding` of its part.

    Attributes:
        tokenizer: Gives the tokens their names.
        bounds: Where each text's tokens start, and N at the end, (B + 1,).
        inputs: The model's inputs, (N,) each.
        offsets: Character spans, (N, 2).
        words: The characters of the words that the caller has split, (N, 2); None for texts that were not split.
        sequences: 0 or 1, and -1 for special tokens, (N,).
        pairs: Their second texts; None for single texts.
        notes: Notes on some of the texts, by their index.
    """

    tokenizer: PreTrainedTokenizerBase
    bounds: IntArray
    inputs: Mapping[str, IntArray]
    offsets: IntArray
    words: IntArray | None
    sequences: IntArray
    texts: Sequence[str | None]
    pairs: Sequence[str | None] | None
    notes: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, encodings: Sequence[Encoding]) -> "EncodingColumns":
        """Return encodings as columns."""
        sequence_ids = [value for encoding in encodings for value in encoding.sequence_ids]
        spans, words = (
            [span for encoding in encodings for span in getattr(encoding, name) or ((0, 0),) * len(encoding)]
            for name in ("offsets", "words")
        )
        names = encodings[0].inputs if encodings else {"input_ids": []}
        return cls(
            tokenizer,
            np.cumsum([0, *map(len, encodings)]),
            {
                name: np.array([value for encoding in encodings for value in encoding.inputs[name]], np.int64)
                for name in names
            },
            spans_array(spans),
            spans_array(words) if any(encoding.words for encoding in encodings) else None,
            np.array([SPECIAL if sequence is None else sequence for sequence in sequence_ids], np.int8),
            [encoding.text for encoding in encodings],
            [encoding.text_pair for encoding in encodings]
            if any(encoding.text_pair is not None for encoding in encodings)
            else None,
            {index: encoding.notes for index, encoding in enumerate(encodings) if encoding.notes},
        )

    @property
    def ids(self) -> IntArray:
        """Return the token ids, (N,)."""
        return self.inputs["input_ids"]

    @property
    def lengths(self) -> IntArray:
        """Return how many tokens each text has, (B,)."""
        return np.diff(self.bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, index: int) -> Encoding: ...
    @overload
    def __getitem__(self, index: slice) -> "EncodingColumns": ...
    def __getitem__(self, index: int | slice) -> "Encoding | EncodingColumns":
        """Return one encoding, or some as columns."""
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        index = range(len(self))[index]
        tokens = slice(int(self.bounds[index]), int(self.bounds[index + 1]))
        sequences = tuple(None if sequence == SPECIAL else sequence for sequence in self.sequences[tokens].tolist())
        return Encoding(
            inputs={name: values[tokens].tolist() for name, values in self.inputs.items()},
            tokens=readable_tokens(self.tokenizer, self.ids[tokens].tolist()),
            offsets=tuple(map(tuple, self.offsets[tokens].tolist())),
            words=None if self.words is None else tuple(map(tuple, self.words[tokens].tolist())),
            sequence_ids=sequences,
            special=tuple(sequence is None for sequence in sequences),
            text=self.texts[index],
            text_pair=None if self.pairs is None else self.pairs[index],
            notes=self.notes.get(index, ()),
        )

    def per_text(self, values: npt.NDArray[Any]) -> IntArray:
        """Return the sums of values of all tokens, (N,), over the tokens of each text, (B,)."""
        sums = np.concatenate([[0], np.cumsum(values)])  # (N + 1,)
        return np.diff(sums[self.bounds])

    def joined(self, other: "EncodingColumns") -> "EncodingColumns":
        """Concatenate two sets of encodings; model inputs that `other` lacks are zero for its texts."""
        words = None
        if self.words is not None or other.words is not None:
            parts = [np.zeros_like(part.offsets) if part.words is None else part.words for part in (self, other)]
            words = np.concatenate(parts)
        return EncodingColumns(
            self.tokenizer,
            np.concatenate([self.bounds, self.bounds[-1] + other.bounds[1:]]),
            {
                name: np.concatenate([values, other.inputs.get(name, np.zeros(other.bounds[-1], np.int64))])
                for name, values in self.inputs.items()
            },
            np.concatenate([self.offsets, other.offsets]),
            words,
            np.concatenate([self.sequences, other.sequences]),
            [*self.texts, *other.texts],
            None if self.pairs is None else [*self.pairs, *(other.pairs or [None] * len(other))],
            {**self.notes, **{len(self) + index: notes for index, notes in other.notes.items()}},
        )

    def take(self, places: Iterable[int]) -> "EncodingColumns":
        """Return some of the texts."""
        indices = list(places)
        tokens = places_of(self.bounds, indices)
        return EncodingColumns(
            self.tokenizer,
            np.concatenate([[0], np.cumsum(self.lengths[indices])]).astype(np.int64),
            {name: values[tokens] for name, values in self.inputs.items()},
            self.offsets[tokens],
            None if self.words is None else self.words[tokens],
            self.sequences[tokens],
            [self.texts[index] for index in indices],
            None if self.pairs is None else [self.pairs[index] for index in indices],
            {new: self.notes[old] for new, old in enumerate(indices) if old in self.notes},
        )


def spans_array(spans: Sequence[tuple[int, int]]) -> IntArray:
    """Return spans as an array, (N, 2)."""
    return np.array(spans, np.int32).reshape(-1, 2)


def places_of(bounds: IntArray, rows: Sequence[int]) -> IntArray:
    """Return the indices of some rows' tokens, one row after the other.

    Args:
        bounds: Where each row's tokens start, and the end, (B + 1,).
        rows: Which rows.
    """
    row_indices = np.asarray(rows, np.int64)  # (R,)
    lengths = bounds[row_indices + 1] - bounds[row_indices]  # (R,)
    ends = np.cumsum(lengths)  # (R,)
    total = int(ends[-1]) if len(ends) else 0
    indices: IntArray = np.arange(total) + np.repeat(bounds[row_indices] - (ends - lengths), lengths)
    return indices
