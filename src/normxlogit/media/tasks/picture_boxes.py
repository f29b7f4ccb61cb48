"""Where in a picture the parts are that enter a model, measured with the model's own processor."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ...parts.signal_entry import SignalEntry
from ..inputs.picture_places import Floats, Sources, sources_of

PIXELS = "pixel_values"
"""The key of the pixel values in the output of image processors."""


class PictureBoxes:
    """Measures the boxes of parts, once for pictures of each size.

    Args:
        process: Returns what the model reads of one picture, by name.
    """

    def __init__(self, process: Callable[[Any], Any]) -> None:
        self._process = process
        self._sources: dict[tuple[int, int], Sources] = {}

    def pixels(self, image: Any) -> Floats:
        """Return the pixel values of one picture from the processor; empty if it returns them in another form."""
        processed = self._process(image)
        return np.asarray(processed.get(PIXELS, []) if isinstance(processed, Mapping) else [], np.float64)

    def __call__(
        self, entry: SignalEntry, image: Any, pixel_share: float = 1.0
    ) -> tuple[Floats, tuple[int, int] | None]:
        """Return the box of each part of a picture at its entry, (N, 4), NaN for padding, and the grid of each tile.

        Args:
            entry: Where the pictures enter.
            image: The picture.
            pixel_share: Of the numbers of all pictures, which this one has.
        """
        if image.size not in self._sources:
            self._sources[image.size] = sources_of(self.pixels, image.size)
        shape = (round(entry.input_shape[0] * pixel_share), *entry.input_shape[1:])
        moments = _moments(self._sources[image.size])
        means = [entry.patch_means(torch.from_numpy(values.reshape(shape))).numpy() for values in moments]
        coverage, x, y, xx, yy = means
        with np.errstate(invalid="ignore", divide="ignore"):
            x, y = x / coverage, y / coverage
            widths, heights = (
                np.sqrt(12 * np.clip(mean_of_squares / coverage - mean**2, 0, None))
                for mean_of_squares, mean in ((xx, x), (yy, y))
            )
        boxes = np.stack([x - widths / 2, y - heights / 2, x + widths / 2, y + heights / 2], -1)
        grid = entry.output_shape[2:] if len(entry.output_shape) == 4 else None
        return boxes, None if grid is None else (grid[0], grid[1])


def _moments(sources: Sources) -> list[Floats]:
    """Return what is averaged over each part: whether there is a pixel, its x and y, and these squared."""
    x, y, inside = sources
    return [inside, inside * x, inside * y, inside * x**2, inside * y**2]
