"""Pictures and sounds in results: the places of their patches and moments, and their scores."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..results.storage.schema import Fields, FloatArray, Index, Number
from ..results.units.media import Medium, Regions

if TYPE_CHECKING:
    from PIL.Image import Image

    from .. import Attribution
    from ..plots.figure import PlotFigure
    from ..render.blocks import Block, MediumBlock

PREVIEW = re.compile(r"(data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*)?")
"""A picture as a data URI, which a page shows without a request."""

REGIONS = 8
"""Most regions of a picture in a row or a column, as a single small patch seldom has an effect."""

MOMENT = 0.25
"""Least duration, in seconds, of a part of a sound that is silenced."""

MOST_PARTS = 40
"""Most parts of an answer in the figure of a sound."""


class _Drawn(Medium):
    """What pictures and sounds have in common."""

    def __repr__(self) -> str:
        """Return a line without the picture or sound."""
        size = " x ".join(f"{side:g}" for side in self.extent)
        return f"{type(self).__name__}({self.name!r}, {size}, scores {'x'.join(map(str, self.scores.shape))})"

    def block(self, *, signed: bool, first: int | None = None, alone: bool = True) -> "MediumBlock":
        """Return the block; see `Medium.block`."""
        from .drawing.blocks import media_block

        return media_block(cast(Any, self), signed=signed, first=first, alone=alone)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PictureScores(_Drawn):
    """A picture of the input with the scores of its patches.

    Attributes:
        places: float32, (h, w, 4): left, top, right and bottom of every patch in pixels of the picture that was given;
            of what a processor returned in pixels of that.
        width: Its width.
        height: Its height.
        preview: A smaller copy, as a data URI; empty for none.
    """

    unit_kind = "patch"
    parts_name = "patches"
    removed_unit = ("region", "replaced")
    region_form = "(left, top, right, bottom) in pixels"
    place_columns = ("left", "top", "right", "bottom")
    for_drawings: ClassVar = {"preview": ""}

    kind: Literal["picture"] = "picture"
    width: Index
    height: Index
    preview: str = ""

    @classmethod
    def is_region(cls, item: Any, *, has_text: bool = True) -> bool:
        """Return whether a source is a box: four numbers, or five with the picture's number first."""
        is_row = isinstance(item, Sequence | np.ndarray) and len(item) in (4, 5)
        return is_row and all(isinstance(i, Real) for i in item)

    @classmethod
    def regions(cls, media: Sequence[Any], named: Fields) -> Regions:
        """Return named boxes of pictures; see `Medium.regions`."""
        regions: Regions = {}
        for name, box in named.items():
            number = int(box[0]) if len(box) == 5 else 0
            if (len(box) == 4 and len(media) != 1) or number not in range(len(media)):
                raise InputError(
                    f"source {name!r}: there are {len(media)} pictures; a region is (left, top, right, bottom) of "
                    "the only one, or (picture, left, top, right, bottom) with its number from 0"
                )
            left, top, right, bottom = map(float, box[-4:])
            width, height = media[number].extent
            if not (0 <= left < right <= width and 0 <= top < bottom <= height):
                raise InputError(
                    f"source {name!r}: {cls.place_name(box[-4:])} is not a box (left, top, right, bottom) in "
                    f"{media[number].name}, which has {width} x {height} pixels"
                )
            regions[name] = number, (left, top, right, bottom)
        return regions

    @property
    def extent(self) -> tuple[int, int]:
        """Its width and height."""
        return self.width, self.height

    @staticmethod
    def place_name(place: Sequence[float]) -> str:
        """Return left, top, right and bottom of a box in pixels, as a caller writes them."""
        return f"({', '.join(f'{edge:.1f}'.removesuffix('.0') for edge in place)})"

    @property
    def boxes(self) -> FloatArray:
        """Left, top, right and bottom of every patch in pixels of the picture, (h, w, 4)."""
        return self.places

    def validate(self, units: int) -> None:
        """Raise ValueError if a patch has no place, or is not among the units."""
        super().validate(units)
        if not (self.width > 0 and self.height > 0):
            raise ValueError("width, height: not of a picture")
        if not PREVIEW.fullmatch(self.preview):
            raise ValueError("preview: not a picture")

    def removed_together(self) -> NDArray[np.intp]:
        """Group patches in squares, at most `REGIONS` in a row or column."""
        rows, columns = np.indices(self.shape) // -(-max(self.shape) // REGIONS)  # (h, w) each
        return (rows * REGIONS + columns).ravel()

    def figure(self, result: "Attribution", k: int | None) -> "PlotFigure":
        """Return the figure of all pictures of a result; see `Medium.figure`."""
        from .drawing.figures import pictures_figure

        return pictures_figure(result, k=k)

    def overlay(self, image: "Image") -> "Image":
        """Colour the picture: red for positive and blue for negative scores, stronger for larger ones.

        Args:
            image: The picture that was given, or a copy in another size.

        Returns:
            A new picture of the same size.

        Raises:
            DataError: If there is a target or layer axis, or Pillow is missing.
        """
        from .drawing.blocks import overlay

        return overlay(self, image)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SoundScores(_Drawn):
    """A sound of the input with the scores of its moments.

    Attributes:
        places: float32, (n, 2): beginning and end of every moment in seconds.
        seconds: Its length.
        loudness: float32: its course, from 0 to 1, for drawings; None if it is not known.
    """

    unit_kind = "moment"
    parts_name = "moments"
    removed_unit = ("moment", "silenced")
    is_over_time = True
    region_form = "(start, end) in seconds"
    place_columns = ("start_seconds", "end_seconds")
    for_drawings: ClassVar = {"loudness": None}

    kind: Literal["sound"] = "sound"
    seconds: Number = 0.0
    loudness: FloatArray | None = None

    @classmethod
    def is_region(cls, item: Any, *, has_text: bool = True) -> bool:
        """Return whether a source is a span of seconds: a pair with a fraction, or of a sound without a text."""
        is_pair = isinstance(item, tuple | list | np.ndarray) and len(item) == 2
        is_span = is_pair and all(isinstance(i, Real) for i in item)
        return is_span and (not has_text or not all(isinstance(i, Integral) for i in item))

    @classmethod
    def regions(cls, media: Sequence[Any], named: Fields) -> Regions:
        """Return named spans of seconds; see `Medium.regions`."""
        for name, (start, end) in named.items():
            if len(media) != 1:
                raise InputError(f"source {name!r}: seconds are those of one sound, and there are {len(media)}")
            if not (0 <= start < end and start < media[0].extent[0]):
                raise InputError(f"source {name!r}: {start:g} to {end:g} are not seconds of {media[0].name}")
        return {name: (0, (start, min(end, media[0].extent[0]))) for name, (start, end) in named.items()}

    @property
    def extent(self) -> tuple[float]:
        """Its length in seconds."""
        return (self.seconds,)

    @staticmethod
    def place_name(place: Sequence[float]) -> str:
        """Return a beginning and an end in seconds."""
        start, end = place
        digits = 2 if end - start > 0.009 else 3
        return f"{start:.{digits}f}-{end:.{digits}f} s"

    @property
    def times(self) -> FloatArray:
        """Beginning and end of every moment in seconds, (n, 2)."""
        return self.places

    def removed_together(self) -> NDArray[np.intp]:
        """Group moments of `MOMENT` seconds, or of one frame if frames are longer."""
        starts, ends = self.times.T.astype(np.float64)  # (n,) each
        return np.where(ends > starts, (starts + ends) / 2 // MOMENT, -1).astype(np.intp)

    def figure(self, result: "Attribution", k: int | None) -> "PlotFigure":
        """Return a heat map of the answer's parts over the first sound; see `Medium.figure`."""
        from ..plots.plots import heat_map
        from .drawing.blocks import grid_over_time

        sound = result.audio[0]
        parts = [target.name for target in result.targets]
        rows = sound.scores.reshape(len(parts), -1)  # (parts, n)
        largest = sorted(np.argsort(-np.abs(rows).sum(1), kind="stable")[: k or MOST_PARTS].tolist())
        return heat_map(grid_over_time(replace(sound, scores=rows[largest]), [parts[i] for i in largest]))

    def blocks_over_time(self, names: Sequence[str]) -> "list[Block]":
        """Return a table of the strongest moment for each word, and a heat map of words over time."""
        from .drawing.blocks import words_over_time

        return words_over_time(self, names)
