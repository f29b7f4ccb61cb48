"""The results for pictures and sounds: scores of patches as a grid, of frames on a time axis."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..errors import DataError
from .attribution import Attribution
from .base import require
from .schema import FloatArray, Index, Number

if TYPE_CHECKING:
    from PIL.Image import Image

ALPHA = 0.65
"""How much of the strongest patch its colour covers."""

RED, BLUE = (220, 38, 38), (37, 99, 235)
"""For and against, as in the other drawings."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ImageAttribution(Attribution):
    """Scores of the patches of one picture.

    Attributes:
        rows: Rows of patches; 0 when the patches do not form a grid.
        columns: Columns of patches.
        first: Index of the first patch among the tokens; class and register tokens come before it.
    """

    kind: ClassVar = "image"
    described: ClassVar = "an attribution of a picture"

    rows: Index = 0
    columns: Index = 0
    first: Index = 0

    def _validate(self) -> None:
        super()._validate()
        require(self.first + self.rows * self.columns <= len(self.tokens), "rows, columns: more patches than tokens")

    @property
    def grid(self) -> FloatArray:
        """The patches' scores in the layout of the picture, (..., rows, columns).

        Raises:
            DataError: If they do not form a grid.
        """
        if not self.rows:
            raise DataError("the patches of this model do not form a grid that its configuration describes")
        count = self.rows * self.columns
        patches = self.scores[..., self.first : self.first + count]  # (..., rows * columns)
        return patches.reshape(*patches.shape[:-1], self.rows, self.columns)

    def overlay(self, image: "Image") -> "Image":
        """Colour the picture: red for the target, blue against it, stronger for more.

        The model sees what its processor makes of a picture; processors that crop to the middle leave the margins
        unseen, so give the picture as cropped to have every patch in its place.

        Args:
            image: The picture.

        Returns:
            A new picture of the same size.

        Raises:
            DataError: If there is a label or layer axis (use `select`), no grid, or Pillow is missing.
        """
        try:
            from PIL import Image as Pillow
        except ImportError:
            raise DataError("an overlay needs Pillow: pip install 'normxlogit[vision]'") from None
        if self.scores.ndim != 1:
            raise DataError("an overlay shows one score for each patch; choose with select(label=..., layer=...)")
        grid = self.grid
        strength = grid / max(float(np.abs(grid).max()), 1e-12)  # (rows, columns)
        colors = np.where(strength[..., None] > 0, RED, BLUE).astype(np.uint8)  # (rows, columns, 3)
        alpha = np.round(255 * ALPHA * np.abs(strength)).astype(np.uint8)  # (rows, columns)
        layer = Pillow.fromarray(np.concatenate([colors, alpha[..., None]], -1), "RGBA")
        layer = layer.resize(image.size, Pillow.Resampling.NEAREST)
        return Pillow.alpha_composite(image.convert("RGBA"), layer).convert("RGB")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AudioAttribution(Attribution):
    """Scores of the frames of one sound.

    Attributes:
        times: Beginning and end of each token in seconds; (0, 0) for tokens without a time.
    """

    kind: ClassVar = "audio"
    described: ClassVar = "an attribution of a sound"

    times: tuple[tuple[Number, Number], ...] = ()

    def _validate(self) -> None:
        super()._validate()
        require(len(self.times) in (0, len(self.tokens)), f"times: not one for each of {len(self.tokens)} tokens")
