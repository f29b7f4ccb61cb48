"""Where in a picture the parts are that enter a model, measured with the model's own processor."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ...inputs.media.picture_places import Floats, Sources, sources_of
from ...parts.signal_entry import SignalEntry

PIXELS = "pixel_values"
"""What image processors call the numbers that they return."""


class PictureBoxes:
    """Measures the boxes of parts, once for pictures of each size.

    Args:
        read: Returns what the model reads of one picture, by name.
    """

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read
        self._sources: dict[tuple[int, int], Sources] = {}

    def pixels(self, image: Any) -> Floats:
        """Return the numbers that the processor makes of one picture; none where it returns them otherwise."""
        read = self._read(image)
        return np.asarray(read.get(PIXELS, []) if isinstance(read, Mapping) else [], np.float64)

    def __call__(self, entry: SignalEntry, image: Any, share: float = 1.0) -> tuple[Floats, tuple[int, int] | None]:
        """Return the box of each part of a picture at its entry, (N, 4), NaN for padding, and the grid of each tile.

        Args:
            entry: Where the pictures enter.
            image: The picture.
            share: Of the numbers of all pictures, which this one has.
        """
        if image.size not in self._sources:
            self._sources[image.size] = sources_of(self.pixels, image.size)
        shape = (round(entry.input_shape[0] * share), *entry.input_shape[1:])
        moments = _moments(self._sources[image.size])
        means = [entry.patch_means(torch.from_numpy(values.reshape(shape))).numpy() for values in moments]
        inside, x, y, xx, yy = means
        with np.errstate(invalid="ignore", divide="ignore"):
            x, y = x / inside, y / inside
            wide, high = (
                np.sqrt(12 * np.clip(second / inside - first**2, 0, None)) for second, first in ((xx, x), (yy, y))
            )
        boxes = np.stack([x - wide / 2, y - high / 2, x + wide / 2, y + high / 2], -1)
        grid = entry.output_shape[2:] if len(entry.output_shape) == 4 else None
        return boxes, None if grid is None else (grid[0], grid[1])


def _moments(sources: Sources) -> list[Floats]:
    """Return what the means over a part are taken of: whether there is a pixel, its place, and the place squared."""
    x, y, inside = sources
    return [inside, inside * x, inside * y, inside * x**2, inside * y**2]
