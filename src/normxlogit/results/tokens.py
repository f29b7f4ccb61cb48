"""What results with scores of tokens share: their words, their highest scores, their layers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, MethodError
from .base import Result, require
from .schema import FloatArray, Index
from .tables import Columns
from .words import Merge, Word, merge_words

TRUNCATED = re.compile(r"only the (first|last) \d+ were read")
"""The note of a text that was cut to the model's length."""


class Token(NamedTuple):
    """One token with its score, as `top` returns it."""

    position: int
    text: str
    score: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TokenScores(Result):
    """Scores of tokens.

    Attributes:
        tokens: The T tokens as readable strings.
        token_ids: Their vocabulary indices; empty for pictures and sounds, which have none.
        offsets: Character spans `(start, end)` in the original text (of the token's sequence); `(0, 0)` for
            special tokens; None when the tokenizer cannot tell.
        special_tokens_mask: True at special tokens.
        text: The original text; None where it is not known.
        layers: The layers on the layer axis, None when there is no such axis.
        merge: How the score of a word comes from its tokens' unless `words` is called with another way: "sum" where
            scores add up, "max" or "mean" where a sum would grow with the number of tokens.
    """

    tokens: tuple[str, ...]
    token_ids: tuple[Index, ...]
    offsets: tuple[tuple[Index, Index], ...] | None
    special_tokens_mask: tuple[bool, ...]
    text: str | None
    layers: tuple[Index, ...] | None
    merge: Merge = "sum"

    @property
    def has_words(self) -> bool:
        """Whether `words` can tell the words of the text."""
        return self.offsets is not None and self.text is not None

    def words(self, merge: Merge | None = None) -> list[Word]:
        """Merge tokens to the words of the original text.

        Words are those that people see: "don't" and "state-of-the-art" are one each, whatever the tokenizer does.

        Args:
            merge: How a word's score comes from its tokens': "sum", "max" (largest magnitude, sign kept), "mean"
                or "first"; by default as fits the method, see the attribute `merge`.

        Returns:
            The words in the order of the text, each with the leading axes of `scores`; special tokens are left out.

        Raises:
            DataError: If the tokenizer gave no offsets or the input was already encoded.
            InputError: If the way to merge is unknown.
        """
        if self.offsets is None or self.text is None:
            raise DataError("words need the original text and a tokenizer that reports character offsets")
        texts = [text for text in self._texts() if text is not None]
        masked = zip(self.special_tokens_mask, self._sequences(), strict=True)
        sequences = [None if special else sequence for special, sequence in masked]
        return merge_words(self.scores, texts, self.offsets, sequences, merge or self.merge)

    @property
    def truncated(self) -> bool:
        """Whether the model read only a part of the text, because it is longer than the model reads."""
        return any(TRUNCATED.search(note) for note in self.notes)

    def _texts(self) -> tuple[str | None, ...]:
        """Return the texts that offsets point into, by sequence."""
        return (self.text,)

    def _sequences(self) -> Sequence[int | None]:
        """Return which text each token is of; None for special tokens."""
        return [None if special else 0 for special in self.special_tokens_mask]

    def _ranked(self, scores: FloatArray, k: int, *, special: bool) -> list[Token]:
        """Return the `k` tokens with the highest of some scores (T',), ties by position."""
        order = np.argsort(-scores, kind="stable")
        indices = [int(i) for i in order if special or not self.special_tokens_mask[i]]
        return [Token(i, self.tokens[i], float(scores[i])) for i in indices[:k]]

    def _at_layer(self, layer: int) -> dict[str, Any]:
        """Return the fields that change when one layer is taken."""
        if self.layers is None or layer not in self.layers:
            raise MethodError(f"no layer {layer} among {self.layers}")
        index = self.layers.index(layer)
        bias, sink = (None if v is None else np.array(v[..., index]) for v in (self.bias, self.sink))
        return {"scores": self.scores[..., index, :].copy(), "bias": bias, "sink": sink, "layers": None}

    def _token_columns(self) -> Columns:
        """Return the columns that describe tokens, one entry a token; None for what is unknown."""
        count = len(self.tokens)
        return {
            "position": list(range(count)),
            "token": list(self.tokens),
            "token_id": list(self.token_ids) or [None] * count,
            "start": [None] * count if self.offsets is None else [start for start, _ in self.offsets],
            "end": [None] * count if self.offsets is None else [end for _, end in self.offsets],
            "sequence": list(self._sequences()),
            "special": list(self.special_tokens_mask),
        }

    def _validate_tokens(self, *names: str) -> None:
        """Raise ValueError if fields do not have an entry for each token, or offsets lie outside the text."""
        count = len(self.tokens)
        for name in ("offsets", "special_tokens_mask", *names):
            values = getattr(self, name)
            require(values is None or len(values) == count, f"{name}: not one for each of {count} tokens")
        require(len(self.token_ids) in (0, count), f"token_ids: not one for each of {count} tokens")
        require(all(token < count for token in self.sinks), "sinks: no such token")
        require(self.sink is not None or not self.sinks, "sinks: without what they contribute")
        texts = self._texts()
        for (start, end), sequence in zip(self.offsets or (), self._sequences(), strict=False):
            text = texts[sequence or 0]
            require(start <= end and (text is None or end <= len(text)), "offsets: outside the text")
