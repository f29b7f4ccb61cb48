"""Regions of pictures as sources: boxes in pixels."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from .media import Medium

Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels of the picture that was given."""


def share_inside(image: Medium, box: Box) -> npt.NDArray[np.float64]:
    """Return the share of each patch's area that lies in a box, (h, w); both are in pixels of the picture."""
    left, top, right, bottom = box
    x0, y0, x1, y1 = np.moveaxis(image.boxes.astype(np.float64), -1, 0)  # (h, w) each
    wide = np.clip(np.minimum(x1, right) - np.maximum(x0, left), 0, None)
    high = np.clip(np.minimum(y1, bottom) - np.maximum(y0, top), 0, None)
    shares: npt.NDArray[np.float64] = wide * high / np.maximum((x1 - x0) * (y1 - y0), 1e-12)
    return shares


def is_box(value: Any) -> bool:
    """Return whether a source is written as a box: four whole numbers, or five with the picture's number first."""
    return isinstance(value, Sequence) and len(value) in (4, 5) and all(isinstance(i, int | np.integer) for i in value)


def boxes_outside(boxes: Iterable[Box], size: tuple[int, int]) -> list[Box]:
    """Return boxes of what of a picture is in none of some boxes."""
    box_names, (width, height) = list(boxes), size
    columns = sorted({0, width, *(edge for left, _, right, _ in box_names for edge in (left, right))})
    rows = sorted({0, height, *(edge for _, top, _, bottom in box_names for edge in (top, bottom))})
    return [
        (left, top, right, bottom)
        for top, bottom in pairwise(rows)
        for left, right in pairwise(columns)
        if not any(a <= left and right <= c and b <= top and bottom <= d for a, b, c, d in box_names)
    ]


def regions_of(sources: Any, sizes: Sequence[tuple[int, int]]) -> dict[str, tuple[int, Box]]:
    """Return the regions among named sources: for each name, the index of the picture and the box in it.

    Args:
        sources: The named sources; no regions are among others.
        sizes: Width and height of each picture.

    Raises:
        InputError: If there is no such picture, a box is not inside it, or two overlap.
    """
    boxes = {str(n): v for n, v in sources.items() if is_box(v)} if isinstance(sources, Mapping) else {}
    regions: dict[str, tuple[int, Box]] = {}
    for name, value in boxes.items():
        number = value[0] if len(value) == 5 else 0
        if (len(value) == 4 and len(sizes) != 1) or number not in range(len(sizes)):
            raise InputError(
                f"source {name!r}: the prompt holds {len(sizes)} pictures; a region is (left, top, right, bottom) of "
                "the only one, or (picture, left, top, right, bottom) with its number from 0"
            )
        left, top, right, bottom = map(int, value[-4:])
        width, height = sizes[number]
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            raise InputError(
                f"source {name!r}: {tuple(value[-4:])} is not a box (left, top, right, bottom) of a picture of "
                f"{width} x {height} pixels"
            )
        regions[name] = number, (left, top, right, bottom)
    for (first, (picture, (a, b, c, d))), (second, (other_picture, (e, f, g, h))) in combinations(regions.items(), 2):
        if picture == other_picture and max(a, e) < min(c, g) and max(b, f) < min(d, h):
            raise InputError(f"the sources {first!r} and {second!r} overlap")
    return regions
