"""The result for two texts that were embedded: which of their tokens the cosine rests on."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..errors import DataError, InputError
from .attribution import Attribution
from .base import require
from .media import ImageScores
from .schema import FloatArray, Index
from .tables import Columns
from .words import Word

if TYPE_CHECKING:
    from ..render.blocks import Block


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Similarity(Attribution):
    """Scores of the tokens of two texts, each text's tokens with their shares of the cosine; or of a picture's patches.

    The tokens of the first text come first, those of the second follow; `sequence_ids` tells them apart. With the
    frozen gradient the scores of either text and its `bias` sum to the cosine, `prediction.value`; of a picture with
    those of its patches.

    Attributes:
        first_tokens: T1, how many of the T tokens are the first text's, special ones included.
        state_cosines: float32, (T,): the cosine of each token's state with the other text's vector, NormXLogit's form
            for a similarity; NaN where the head cannot be applied to a single state.
        bias: float32, (2,): the contribution to the cosine that belongs to no token, of either text; None where the
            method does not report it.
        matrix: float32, (T1 + 1, T2 + 1): what each pair of tokens adds to the cosine; its sum is the cosine. The last
            row and column are the biases'. None without `matrix=True`.
        state_cosine_matrix: float32, (T1, T2): the cosine of the states of each pair of tokens; None as `matrix`.
        images: The scores of the patches of a picture that was compared, (h, w); the tokens of the patches have none of
            their own. Empty where the patches form no grid: their tokens have their scores.
    """

    kind: ClassVar = "similarity"
    described: ClassVar = "an attribution of a similarity"
    title: ClassVar = "Similarity"

    first_tokens: Index = 0
    state_cosines: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    matrix: FloatArray | None = None
    state_cosine_matrix: FloatArray | None = None
    images: tuple[ImageScores, ...] = ()

    @property
    def cosine(self) -> float:
        """The cosine of the two vectors."""
        return self.prediction.value

    def words_of(self, text: int) -> list[Word]:
        """Return the words of one of the two texts, with their scores.

        Args:
            text: 0 for the first, 1 for the second.

        Raises:
            DataError: If the tokenizer gave no offsets.
            InputError: If it is neither 0 nor 1.
        """
        if text not in (0, 1):
            raise InputError(f"no text {text!r}: 0 is the first, 1 the second")
        return [word for word in self.words() if word.sequence == text]

    def word_matrix(self) -> FloatArray:
        """Return the matrix summed to words, special tokens and biases left out: (first's words, second's words).

        Raises:
            DataError: If the tokenizer gave no offsets, or there is no matrix.
        """
        if self.matrix is None:
            raise DataError("there is no matrix; ask for it with similarity(a, b, matrix=True)")
        rows = np.stack([self.matrix[list(word.tokens)].sum(0) for word in self.words_of(0)])  # (W1, T2 + 1)
        places = [[token - self.first_tokens for token in word.tokens] for word in self.words_of(1)]
        return np.stack([rows[:, tokens].sum(1) for tokens in places], 1)  # (W1, W2)

    def _validate(self) -> None:
        super()._validate()
        first, second = self.first_tokens, len(self) - self.first_tokens
        require(0 < first < len(self), "first_tokens: not the tokens of the first of two texts")
        require(self.state_cosines.shape == (first + second,), f"state_cosines: not one for each of {len(self)} tokens")
        for name, shape in (("matrix", (first + 1, second + 1)), ("state_cosine_matrix", (first, second))):
            values = getattr(self, name)
            require(values is None or values.shape == shape, f"{name}: not of shape {shape}")
        for image in self.images:
            image.validate(())

    def _bias_shape(self) -> tuple[int, ...]:
        return (2,)  # one for each text

    def _base(self) -> FloatArray:
        return np.zeros((), np.float32)  # the scores and the bias of each text add up to the cosine

    def _columns(self) -> Columns:
        return super()._columns() | {"state_cosines": self.state_cosines.tolist()}

    def _blocks(self) -> "list[Block]":
        from ..render.similarity_blocks import similarity_blocks

        return similarity_blocks(self)

    def _shown(self) -> str:
        return f"{self.method}, {self.cosine:.3f}, {self.text!r}, {self.text_pair!r}"
