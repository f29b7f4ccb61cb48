"""Pictures and sounds as a model reads them: alone, or beside the words of a prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import Self


@dataclass(frozen=True)
class EncodedSignal:
    """An input without a text as the model reads it, such as a picture; its parts are tokens or an encoder's input.

    Attributes:
        shapes: The shapes of its inputs; those of the same shapes are read together.
        inputs: The processor's outputs for it: the model's inputs without the batch axis.
    """

    shapes: tuple[tuple[int, ...], ...]
    inputs: Mapping[str, Tensor]

    def without(self, tokens: Sequence[int]) -> Self:
        """Return it without the parts that some tokens are."""
        raise NotImplementedError

    def medium(self, parts: int) -> "EncodedMedium | None":
        """Return it as what has scores in a result, read in so many parts behind the tokens; None for tokens alone."""
        return None


class ScoreSpread(NamedTuple):
    """A linear map from the scores of a model's parts (patches or frames) to places in a picture or a sound; sums stay.

    It is a sparse matrix: each of E entries gives a share of one part's score to one place.

    Attributes:
        where: Where each place is, (h, w, 4) in pixels or (n, 2) in seconds.
        parts: The index of each entry's part, (E,).
        places: The index of its place, (E,), counted through all axes of the places.
        shares: How much of the part's score is there, (E,); those of one part sum to 1.
    """

    where: npt.NDArray[np.float32]
    parts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]

    def __call__(self, scores: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float32]:
        """Return scores of N parts, (..., N), as scores of places, (..., h, w) or (..., n)."""
        *axes, part_count = scores.shape
        place_shape = self.where.shape[:-1]  # (h, w) or (n,)
        place_count = int(np.prod(place_shape))
        rows = scores.reshape(-1, part_count).astype(np.float64)
        totals = [np.bincount(self.places, row[self.parts] * self.shares, place_count) for row in rows]
        return np.array(totals, np.float32).reshape(*axes, *place_shape)


@dataclass(frozen=True)
class EncodedMedium:
    """A part of an input that is not text, such as a picture inside a prompt.

    Attributes:
        kind: Which of the media that extensions name it is, such as "picture".
        tokens: The tokens of the text that stand for it.
        by_token: Its places for scores of these tokens; None if they cannot be told apart.
        by_part: Its places for scores of the parts at its entry into the model (`parts.signal_entry`), counted
            among the parts of all media of the prompt, or of the encoder's frames of a sound.
        extent: Its size along each axis of its places: width and height of a picture, seconds of a sound.
    """

    kind: str
    name: str
    tokens: tuple[int, ...]
    by_token: ScoreSpread | None
    by_part: ScoreSpread | None
    extent: tuple[float, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
