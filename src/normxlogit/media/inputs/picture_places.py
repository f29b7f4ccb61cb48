"""The places of a model's patches in a picture, measured with the model's own processor.

A processor resizes, crops, pads and cuts a picture into tiles in its own way. What it does is measured: it is given
pictures of the same size that are black, white, and grey by the column or the row. What it returns for these says from
which pixel of the picture each returned number comes.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ...parts.signal_entry import SignalEntry
from ...results.storage.schema import Float64Array, FloatArray
from .picture_grids import GridShape, Size, boxes_between

if TYPE_CHECKING:
    from PIL.Image import Image


PIXELS = "pixel_values"
"""The key of the pixel values in the output of image processors."""

KEPT_SIZES = 64
"""Sizes of pictures whose boxes are kept for the next ones."""

LEVELS = 255
"""Levels of grey from black to white: a place is measured to about this share of the picture."""

MIN_CONTRAST = 1e-3
"""A value that differs less between black and white pictures comes from no pixel."""


class SourcePixels(NamedTuple):
    """The pixel of a picture that each number comes from which a processor returns, in arrays of its output's shape."""

    columns: Float64Array  # in pixels from the left; any numbers for padding
    rows: Float64Array  # in pixels from the top; any numbers for padding
    is_inside: Float64Array  # 1; 0 for padding, which comes from no pixel


def sources_of(process: Callable[["Image"], Float64Array], size: Size) -> SourcePixels:
    """Measure with test pictures from which pixel a processor computes each number, for pictures of one size.

    In a picture that goes from black at the left to white at the right, the level of grey is the column; processing
    is linear in the levels between those of a black and a white picture.

    Args:
        process: Returns what a processor makes of a picture.
        size: Width and height of the picture, in pixels.
    """
    from PIL import Image

    width, height = size

    def process_grey(levels: npt.ArrayLike) -> Float64Array:
        """Process a grey picture of some levels, (height, width) or broadcast to it."""
        pixels = np.broadcast_to(np.round(np.asarray(levels)), (height, width)).astype(np.uint8)
        return process(Image.fromarray(pixels).convert("RGB"))

    black = process_grey(0)
    white = process_grey(LEVELS)
    is_inside = np.abs(white - black) > MIN_CONTRAST
    contrast = np.where(is_inside, white - black, 1.0)
    # The level of a pixel says where its centre is, half a pixel behind its edge.
    by_column = process_grey(LEVELS * (np.arange(width) + 0.5) / width)
    by_row = process_grey(LEVELS * (np.arange(height)[:, None] + 0.5) / height)
    columns = (by_column - black) / contrast * width
    rows = (by_row - black) / contrast * height
    return SourcePixels(columns, rows, is_inside.astype(np.float64))


class PictureBoxes:
    """Measures the boxes of a picture's patches, once for pictures of a size.

    Args:
        process: Returns the model's inputs for one picture, by name.
    """

    def __init__(self, process: Callable[[Any], Any]) -> None:
        self._process = process
        self.boxes_and_grid = lru_cache(KEPT_SIZES)(self._boxes_and_grid)

    def pixels(self, image: Any) -> Float64Array:
        """Return the pixel values of one picture from the processor; empty if it returns them in another form."""
        processed = self._process(image)
        return np.asarray(processed.get(PIXELS, []) if isinstance(processed, Mapping) else [], np.float64)

    def _boxes_and_grid(
        self, entry: SignalEntry, size: Size, pixel_share: float
    ) -> tuple[Float64Array, GridShape | None]:
        """Return the box of each of N patches of a picture, and the grid of the patches of each of its tiles.

        Args:
            entry: The patch embedding, at which all pictures of an input enter the model.
            size: Width and height of the picture, in pixels.
            pixel_share: The picture's share of the pixel values that enter there.

        Returns:
            Left, top, right and bottom of each patch in pixels, (N, 4), NaN for padding; and the rows and columns of
            a tile, None where the entry does not keep them apart.
        """
        tile_count = round(entry.input_shape[0] * pixel_share)
        shape = (tile_count, *entry.input_shape[1:])
        columns, rows, is_inside = sources_of(self.pixels, size)

        def patch_means(values: Float64Array) -> Float64Array:
            """Return the mean, over each patch, of one value for each number that the model is given, (N,)."""
            return entry.patch_means(torch.from_numpy(values.reshape(shape))).numpy()

        coverage = patch_means(is_inside)  # the share of each patch that is not padding, (N,)

        def edges(positions: Float64Array) -> tuple[Float64Array, Float64Array]:
            """Return where patches start and end along an axis, from the pixels that their numbers come from."""
            mean = patch_means(is_inside * positions) / coverage
            return _even_spread(mean, patch_means(is_inside * positions**2) / coverage)

        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is NaN for a patch of padding alone
            left, right = edges(columns)
            top, bottom = edges(rows)
        boxes = np.stack([left, top, right, bottom], -1)
        if len(entry.output_shape) != 4:  # (tiles, H, h, w) of a convolution over pictures
            return boxes, None
        return boxes, (entry.output_shape[2], entry.output_shape[3])


def _even_spread(mean: Float64Array, mean_of_squares: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the start and the end of intervals over which places are spread evenly, (N,) each.

    The variance of a uniform distribution is a twelfth of its squared width.

    Args:
        mean: The mean of the places in each interval, (N,).
        mean_of_squares: The mean of their squares, (N,).
    """
    variance = np.clip(mean_of_squares - mean**2, 0, None)
    half_width = np.sqrt(12 * variance) / 2
    return mean - half_width, mean + half_width


def cell_boxes(sources: SourcePixels, grid: GridShape, size: Size) -> FloatArray:
    """Return where in a picture the cells are into which a model cuts what a processor returns for it.

    Args:
        sources: The pixel that each returned number comes from, in arrays of (C, H, W).
        grid: How many rows and columns of equal cells there are, (h, w).
        size: Width and height of the picture, in pixels.

    Returns:
        The boxes of the cells in pixels of the picture, (h, w, 4); those of padding have no area.
    """
    row_count, column_count = grid
    width, height = size
    weights = sources.is_inside
    columns = _cell_edges(sources.columns * weights, weights, (0, 1), column_count, width)
    rows = _cell_edges(sources.rows * weights, weights, (0, 2), row_count, height)
    return boxes_between(columns, rows).astype(np.float32)


def _cell_edges(
    positions: Float64Array, weights: Float64Array, other_axes: tuple[int, int], cell_count: int, length: int
) -> Float64Array:
    """Return the edges of equal cells along one axis of a picture, in its pixels, (cell_count + 1,).

    A processor resizes, crops and pads along each axis, so a place in the picture is a linear function of one in its
    output, which is fitted here.

    Args:
        positions: The pixel along the axis that each number comes from, 0 for padding, (C, H, W).
        weights: 1 for each number, 0 for padding, (C, H, W).
        other_axes: The axes of these arrays that do not run along the axis.
        cell_count: How many cells there are.
        length: The pixels of the picture along the axis.
    """
    weight_sums = weights.sum(other_axes)  # (W,) or (H,)
    indices = np.flatnonzero(weight_sums)  # of what is not padding, in the processor's output
    means = positions.sum(other_axes)[indices] / weight_sums[indices]
    # A picture that is enlarged has its border pixels repeated, so the function is not linear there.
    is_border = np.abs(means - length / 2) >= (length - 1) / 2 - length / LEVELS
    # They weigh next to nothing, and count where there is nothing else.
    slope, start = np.polyfit(indices + 0.5, means, 1, w=np.where(is_border, 1e-6, 1.0))
    ends = start + slope * np.array([0, len(weight_sums)])
    borders = np.array([0, length])
    # An end that cannot be told from the border of the picture is the border.
    first, last = np.where(np.abs(ends - borders) < length / LEVELS, borders, ends).tolist()
    return np.clip(np.linspace(first, last, cell_count + 1), 0, length)
