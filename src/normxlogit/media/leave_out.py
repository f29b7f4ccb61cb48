"""Pictures without some regions: each has the mean colour of what surrounds it."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

Box = Sequence[float]
"""Left, top, right and bottom, in pixels."""


def filled_by_surroundings(pixels: Floats, boxes: Sequence[Box]) -> Floats:
    """Return a picture in which each of some boxes has the mean colour of the nearest pixels that stay.

    Those are within a box of the same size on each side; where all of these are removed too, within two of them, and
    so on. Of a picture that is removed whole it is the mean colour of all.

    Args:
        pixels: The picture, (H, W, C).
        boxes: Left, top, right and bottom of what is removed; pixels are removed whose centres lie in a box.
    """
    height, width = pixels.shape[:2]
    inside = [_pixels_in(box, height, width) for box in boxes]
    removed = np.zeros((height, width), bool)
    for rows, columns in inside:
        removed[rows, columns] = True
    filled = pixels.copy()
    for (left, top, right, bottom), pixels_inside in zip(boxes, inside, strict=True):
        wide, high = right - left, bottom - top
        surroundings = pixels.reshape(height * width, -1)  # (n, C)
        for distance in range(1, math.ceil(max(width / wide, height / high)) + 1):
            expanded = left - distance * wide, top - distance * high, right + distance * wide, bottom + distance * high
            near = _pixels_in(expanded, height, width)
            if not removed[near].all():
                surroundings = pixels[near][~removed[near]]
                break
        filled[pixels_inside] = surroundings.mean(0, dtype=np.float64)  # float32 would lose the millionth pixel
    return filled


def _pixels_in(box: Box, height: int, width: int) -> tuple[slice, slice]:
    """Return the rows and columns of the pixels whose centres lie in a box, or of the one around a smaller box."""
    left, top, right, bottom = box
    return _places_in(top, bottom, height), _places_in(left, right, width)


def _places_in(start: float, end: float, length: int) -> slice:
    """Return the pixels in a row or column from one edge of a box to the other."""
    first, last = math.ceil(start - 0.5), math.ceil(end - 0.5)
    if first >= last:  # the box lies between two centres
        first = min(math.floor((start + end) / 2), length - 1)
        last = first + 1
    return slice(max(0, first), min(length, max(0, last)))
