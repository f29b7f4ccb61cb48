"""Pictures and sounds in results: the places of their patches and moments, and their scores."""

import math
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


class _DrawnMedium(Medium):
    """What pictures and sounds in results have in common: how they are printed and drawn."""

    def __repr__(self) -> str:
        """Return the name and the sizes, without the picture or the sound itself."""
        size = " x ".join(f"{side:g}" for side in self.extent)
        return f"{type(self).__name__}({self.name!r}, {size}, scores {'x'.join(map(str, self.scores.shape))})"

    def block(self, *, signed: bool, first: int | None = None, alone: bool = True) -> "MediumBlock":
        """Return the block; see `Medium.block`."""
        from .drawing.blocks import media_block

        return media_block(cast(Any, self), signed=signed, first=first, alone=alone)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PictureScores(_DrawnMedium):
    """A picture of the input with the scores of its patches.

    Attributes:
        places: float32, (h, w, 4): left, top, right and bottom of every patch, in pixels. They are pixels of the
            picture that was given; where the processor's output was given, they are pixels of that.
        width: Its width, in these pixels.
        height: Its height, in these pixels.
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
        return is_row and all(isinstance(number, Real) for number in item)

    @classmethod
    def regions(cls, media: Sequence[Any], named: Fields) -> Regions:
        """Return named boxes of pictures; see `Medium.regions`."""
        regions: Regions = {}
        for name, box in named.items():
            has_number = len(box) == 5
            number = int(box[0]) if has_number else 0
            if not (has_number or len(media) == 1) or number not in range(len(media)):
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
        """Return left, top, right and bottom of a box in pixels as a caller writes them, such as "(0, 12.5, 8, 24)"."""
        return f"({', '.join(f'{edge:.1f}'.removesuffix('.0') for edge in place)})"

    @property
    def boxes(self) -> FloatArray:
        """Left, top, right and bottom of every patch in pixels of the picture, (h, w, 4)."""
        return self.places

    def validate(self, units: int) -> None:
        """Raise ValueError if a patch has no place or is not among the units, or for a wrong size or preview."""
        super().validate(units)
        if not (self.width > 0 and self.height > 0):
            raise ValueError("width, height: not of a picture")
        if not PREVIEW.fullmatch(self.preview):  # a page shows it, and a file of results may hold any text here
            raise ValueError("preview: not a picture")

    def removed_together(self) -> NDArray[np.intp]:
        """Return the number of the square region that each patch is in, with which it is removed, (h * w,).

        A row or a column of the picture has at most `REGIONS` of them.
        """
        side = math.ceil(max(self.shape) / REGIONS)  # of a region, in patches
        rows, columns = np.indices(self.shape) // side  # (h, w) each
        return (rows * REGIONS + columns).ravel()  # a row of regions has at most `REGIONS`, so no two get one number

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
class SoundScores(_DrawnMedium):
    """A sound of the input with the scores of its moments.

    Attributes:
        places: float32, (n, 2): beginning and end of every moment in seconds.
        seconds: Its duration.
        loudness: float32, (points,): the loudness over time, from 0 to 1, for drawings; None if it is not known.
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
        """Return whether a source is a span of seconds: a pair of numbers.

        Beside a text, a pair of whole numbers is a span of its characters.
        """
        is_pair = isinstance(item, tuple | list | np.ndarray) and len(item) == 2
        is_span = is_pair and all(isinstance(edge, Real) for edge in item)
        return is_span and not (has_text and all(isinstance(edge, Integral) for edge in item))

    @classmethod
    def regions(cls, media: Sequence[Any], named: Fields) -> Regions:
        """Return named spans of seconds, each up to the end of the sound at most; see `Medium.regions`."""
        for name, (start, end) in named.items():
            if len(media) != 1:
                raise InputError(f"source {name!r}: seconds are those of one sound, and there are {len(media)}")
            if not (0 <= start < end and start < media[0].extent[0]):
                raise InputError(f"source {name!r}: {start:g} to {end:g} are not seconds of {media[0].name}")
        return {name: (0, (start, min(end, media[0].extent[0]))) for name, (start, end) in named.items()}

    @property
    def extent(self) -> tuple[float]:
        """Its duration in seconds."""
        return (self.seconds,)

    @staticmethod
    def place_name(place: Sequence[float]) -> str:
        """Return a beginning and an end in seconds, such as "0.25-0.50 s"."""
        start, end = place
        digits = 2 if end - start > 0.009 else 3  # moments of some milliseconds would all read alike
        return f"{start:.{digits}f}-{end:.{digits}f} s"

    @property
    def times(self) -> FloatArray:
        """Beginning and end of every moment in seconds, (n, 2)."""
        return self.places

    def removed_together(self) -> NDArray[np.intp]:
        """Return the number of the span of `MOMENT` seconds that each moment is in, with which it is removed, (n,).

        The middle of the moment counts. Moments that are longer are alone. Those without a duration, behind the end of
        the sound, get -1: they are not removed.
        """
        starts, ends = self.times.T.astype(np.float64)  # (n,) each
        return np.where(ends > starts, (starts + ends) / 2 // MOMENT, -1).astype(np.intp)

    def figure(self, result: "Attribution", k: int | None) -> "PlotFigure":
        """Return a heat map of the answer's parts over the first sound; see `Medium.figure`."""
        from ..plots.plots import heat_map
        from .drawing.blocks import grid_over_time

        sound = result.audio[0]
        part_names = [target.name for target in result.targets]
        rows = sound.scores.reshape(len(part_names), -1)  # (parts, n)
        by_strength = np.argsort(-np.abs(rows).sum(1), kind="stable")  # (parts,), of equal ones the first stays first
        shown = sorted(by_strength[: k or MOST_PARTS].tolist())  # the strongest, in the order of the answer
        return heat_map(grid_over_time(replace(sound, scores=rows[shown]), [part_names[part] for part in shown]))

    def blocks_over_time(self, names: Sequence[str]) -> "list[Block]":
        """Return a table of the strongest moment for each word, and a heat map of words over time."""
        from .drawing.blocks import words_over_time

        return words_over_time(self, names)
