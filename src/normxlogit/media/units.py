"""Pictures and sounds: the places of their patches and moments, and their scores."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import DataError
from ..results.storage.schema import FloatArray, Index, Number, freeze
from ..results.units.units import UnitKind, Units

if TYPE_CHECKING:
    from PIL.Image import Image

PREVIEW = re.compile(r"(data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*)?")
"""A picture as a data URI, which a page shows without a request."""

KINDS: Mapping[str, UnitKind] = {"picture": "patch", "sound": "moment"}
"""The kind of units of a picture and of a sound."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Medium:
    """A picture or a sound of the input; its parts are consecutive units of the result.

    Attributes:
        kind: Which of the two.
        name: Its name in drawings, such as the name of its file.
        first: Index of its first unit.
        places: float32: of a picture the box of every patch, (h, w, 4): left, top, right and bottom in pixels of the
            picture that was given, or in patches where its classifier's processor is not asked; of a sound beginning
            and end of every moment in seconds, (n, 2).
        width: Width of the picture.
        height: Its height.
        seconds: Length of the sound.
        loudness: float32: its course, from 0 to 1, for drawings; empty if it is not known.
        preview: A smaller copy of the picture, as a data URI; empty for none.
        tokens: The tokens of the text that stand for it, which have no score of their own.
        scores: float32, (..., h, w) or (..., n), with the axes of targets and layers that the result has: of `images`
            and `audio`. Empty in the `media` of a result, whose `scores` hold them.
    """

    kind: Literal["picture", "sound"]
    name: str
    first: Index
    places: FloatArray
    width: Index = 0
    height: Index = 0
    seconds: Number = 0.0
    loudness: FloatArray | None = None
    preview: str = ""
    tokens: tuple[Index, ...] = ()
    scores: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        freeze(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns of patches, or the number of moments."""
        return self.places.shape[:-1]

    @property
    def units(self) -> slice:
        """The slice of the result's units that are its parts."""
        return slice(self.first, self.first + int(np.prod(self.shape)))

    def as_units(self, sequence: int = 0) -> Units:
        """Return its parts as units, named by row and column or by time.

        Args:
            sequence: Which of two pictures it is.
        """
        if self.kind == "picture":
            names = [f"{row},{column}" for row, column in np.ndindex(*self.shape)]
        else:
            names = [f"{start:.2f}-{end:.2f} s" for start, end in self.places.tolist()]
        count, kind = len(names), KINDS[self.kind]
        return Units.of_tokens(names, special=[False] * count, sequence=[sequence] * count, kind=kind)

    def validate(self, units: int) -> None:
        """Raise ValueError if a part has no place, or is not among the units."""
        axes, numbers = (3, 4) if self.kind == "picture" else (2, 2)
        if self.places.ndim != axes or self.places.shape[-1] != numbers:
            raise ValueError(f"places of {self.name!r}: not {numbers} numbers for each part")
        if self.units.stop > units:
            raise ValueError(f"places of {self.name!r}: more parts than units")
        if self.kind == "picture" and not (self.width > 0 and self.height > 0):
            raise ValueError("width, height: not of a picture")
        if self.scores.size:
            raise ValueError(f"scores of {self.name!r}: they are those of the result")
        if not PREVIEW.fullmatch(self.preview):
            raise ValueError("preview: not a picture")

    def __repr__(self) -> str:
        """Return a line without the picture."""
        size = f"{self.width} x {self.height}" if self.kind == "picture" else f"{self.seconds:.2f} s"
        return f"Medium({self.kind} {self.name!r}, {size}, scores {'x'.join(map(str, self.scores.shape))})"

    @property
    def boxes(self) -> FloatArray:
        """Left, top, right and bottom of every patch in pixels of the picture, (h, w, 4); see `places`.

        Raises:
            DataError: If the medium is a sound.
        """
        return self._places("picture")

    @property
    def times(self) -> FloatArray:
        """Beginning and end of every moment in seconds, (n, 2).

        Raises:
            DataError: If the medium is a picture.
        """
        return self._places("sound")

    def _places(self, kind: str) -> FloatArray:
        if self.kind != kind:
            raise DataError(f"{self.name!r} is a {self.kind}: a picture has boxes, a sound has times")
        return self.places

    @property
    def total(self) -> FloatArray:
        """The sum over the parts, with the leading axes of `scores`."""
        total: FloatArray = self.scores.sum(tuple(range(-len(self.shape), 0)))
        return total

    def overlay(self, image: "Image") -> "Image":
        """Colour the picture: red for positive and blue for negative scores, stronger for larger ones.

        Args:
            image: The picture that was given. Where boxes are in patches, a processor that crops to the middle leaves
                the margins unseen: give the picture as cropped then, to have every patch in its place.

        Returns:
            A new picture of the same size.

        Raises:
            DataError: If it is a sound, there is a target or layer axis, or Pillow is missing.
        """
        from .drawing.drawing import overlay

        return overlay(self, image)


def grid_medium(rows: int, columns: int, first: int) -> Medium:
    """Return a picture whose patches form a grid, in units of patches."""
    left, top = np.meshgrid(np.arange(columns), np.arange(rows))  # (rows, columns) each
    boxes = np.stack([left, top, left + 1, top + 1], -1).astype(np.float32)
    return Medium(kind="picture", name="the picture", first=first, places=boxes, width=columns, height=rows)


def sound_of_times(times: Sequence[Sequence[float]]) -> Medium | None:
    """Return a sound whose moments are the units with times; None if no unit has one.

    Args:
        times: Beginning and end of each unit in seconds; (0, 0) of those before the first moment and after the last.
    """
    timed = [i for i, (start, end) in enumerate(times) if end > start]
    if not timed:
        return None
    moments = np.array(times[timed[0] : timed[-1] + 1], np.float32)  # (n, 2)
    return Medium(kind="sound", name="the sound", first=timed[0], places=moments, seconds=float(moments.max()))
