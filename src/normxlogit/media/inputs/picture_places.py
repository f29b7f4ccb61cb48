"""The places of a model's patches in a picture, measured with the model's own processor.

A processor resizes, crops, pads and cuts a picture into tiles in its own way. What it does is measured: it is given
pictures of the same size that are black, white, and grey by the column or the row. What it returns for these says from
which pixel of the picture each returned number comes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ...inputs.encoding import ScoreSpread
from ...parts.signal_entry import SignalEntry
from ...results.storage.schema import Float64Array, FloatArray

if TYPE_CHECKING:
    from PIL.Image import Image


Size = tuple[int, int]
"""Width and height of a picture, in pixels."""

GridShape = tuple[int, int]
"""Rows and columns of patches."""

SIZE_TOLERANCE = 0.25
"""Two patches count as of one size, or as in one row, within this share of a patch's side."""

CELL_QUANTILE = 0.4
"""Quantile of the sides of parts that a cell has: above the few that are partly padding, below those of the whole."""

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
    return _boxes_between(columns, rows).astype(np.float32)


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
    slope, start = np.polyfit(indices + 0.5, means, 1, w=np.where(is_border, 1e-6, 1.0))
    ends = start + slope * np.array([0, len(weight_sums)])
    borders = np.array([0, length])
    # An end that cannot be told from the border of the picture is the border.
    first, last = np.where(np.abs(ends - borders) < length / LEVELS, borders, ends).tolist()
    return np.clip(np.linspace(first, last, cell_count + 1), 0, length)


def equal_cells(grid: Sequence[int], size: Sequence[int]) -> FloatArray:
    """Return the boxes of equal cells in rows and columns of an area of a width and height, (h, w, 4).

    Args:
        grid: How many rows and columns there are, (h, w).
        size: Width and height of the area.
    """
    row_count, column_count = grid
    width, height = size
    columns = np.linspace(0, width, column_count + 1)
    rows = np.linspace(0, height, row_count + 1)
    return _boxes_between(columns, rows).astype(np.float32)


def merged_boxes(boxes: Float64Array, grid: GridShape, side: int) -> Float64Array:
    """Return the boxes of square blocks of patches, tile by tile and row by row, (blocks, 4).

    Args:
        boxes: The boxes of the patches of each tile, row by row, (tiles * h * w, 4); NaN for padding.
        grid: Rows and columns of a tile, (h, w).
        side: How many patches a block has on each side.
    """
    height, width = grid
    blocks = boxes.reshape(-1, height // side, side, width // side, side, 4)
    left_top = np.nanmin(blocks[..., :2], (2, 4))  # (tiles, h / side, w / side, 2)
    right_bottom = np.nanmax(blocks[..., 2:], (2, 4))
    return np.concatenate([left_top, right_bottom], -1).reshape(-1, 4)


def grid_layout(boxes: Float64Array, size: Size) -> ScoreSpread | None:
    """Return a grid of places in a picture, and how the score of each patch is spread over it.

    Patches that form one grid are its places. Where a picture is read as a whole and in tiles, the smallest patches
    are, and the score of a larger one is spread over those that it covers, by their areas. Where these form no grid,
    as in tiles whose margins are padding, the places are a grid of cells as large as most of the smaller patches, over
    which every score is spread by area.

    Args:
        boxes: Left, top, right and bottom of each patch in pixels, (N, 4); NaN for patches of padding.
        size: Width and height of the picture, in pixels.

    Returns:
        The places and the shares of each patch's score in them; None if no patch is in the picture.
    """
    boxes = np.clip(boxes, 0, [*size, *size])
    sides = boxes[:, 2:] - boxes[:, :2]  # widths and heights, (N, 2)
    with_area = np.flatnonzero((sides > 0).all(1))
    if not len(with_area):
        return None
    smallest_sides = sides[with_area].min(0)  # (2,)
    is_small = (sides[with_area] < (1 + SIZE_TOLERANCE) * smallest_sides + SIZE_TOLERANCE).all(1)
    small = with_area[is_small]
    columns = _shared_edges(boxes[small, 0::2])  # of left and right
    rows = _shared_edges(boxes[small, 1::2])  # of top and bottom
    place_count = (len(columns) - 1) * (len(rows) - 1)
    if place_count <= len(small):  # a place without a small patch of its own would mean that they form no grid
        spread = _spread(boxes, with_area, frozenset(small.tolist()), columns, rows)
        if spread is not None:
            return spread
    columns = _equal_cells(boxes[with_area, 0::2])
    rows = _equal_cells(boxes[with_area, 1::2])
    return _spread(boxes, with_area, frozenset(), columns, rows)


def _spread(
    boxes: Float64Array,
    patches: npt.NDArray[np.intp],
    single_places: frozenset[int],
    columns: Float64Array,
    rows: Float64Array,
) -> ScoreSpread | None:
    """Return how the scores of patches are spread over a grid; None if a patch lies outside it.

    Args:
        boxes: The boxes of all patches, (N, 4).
        patches: The indices of those that are spread.
        single_places: Those that are one place of the grid each, whatever rounding makes of their edges.
        columns: The edges between the columns of the grid, in pixels, (w + 1,).
        rows: The edges between its rows, (h + 1,).
    """
    patches_of_entries = []  # an array of each patch, with an entry for each place that it overlaps
    places_of_entries = []
    shares = []
    for patch in patches:
        left, top, right, bottom = boxes[patch]
        widths = np.clip(np.minimum(columns[1:], right) - np.maximum(columns[:-1], left), 0, None)  # (w,)
        heights = np.clip(np.minimum(rows[1:], bottom) - np.maximum(rows[:-1], top), 0, None)  # (h,)
        overlaps = heights[:, None] * widths  # the area that the patch has in common with each place, (h, w)
        if patch in single_places:
            overlaps = overlaps * (overlaps == overlaps.max())
        places = np.flatnonzero(overlaps)
        if not len(places):
            return None
        patches_of_entries.append(np.full(len(places), patch))
        places_of_entries.append(places)
        shares.append(overlaps.ravel()[places] / overlaps.sum())
    return ScoreSpread(
        where=_boxes_between(columns, rows).astype(np.float32),
        parts=np.concatenate(patches_of_entries),
        places=np.concatenate(places_of_entries),
        shares=np.concatenate(shares),
    )


def _boxes_between(columns: Float64Array, rows: Float64Array) -> Float64Array:
    """Return the boxes of a grid, (h, w, 4), from the edges of its columns, (w + 1,), and of its rows, (h + 1,)."""
    edges = np.broadcast_arrays(columns[None, :-1], rows[:-1, None], columns[None, 1:], rows[1:, None])
    return np.stack(edges, -1)


def _equal_cells(spans: Float64Array) -> Float64Array:
    """Return the edges of equal cells that cover the spans of patches, (N, 2), as wide as most smaller patches."""
    start = spans[:, 0].min()
    end = spans[:, 1].max()
    side = np.quantile(spans[:, 1] - spans[:, 0], CELL_QUANTILE)
    return np.linspace(start, end, max(1, round((end - start) / side)) + 1)


def _shared_edges(spans: Float64Array) -> Float64Array:
    """Return the edges of the rows (or columns) of a grid, from the spans of its patches along one axis, (N, 2).

    Spans with nearly the same middle are of one row; the edge between two rows is half way between their spans.
    """
    middles = spans.mean(1)
    side = float(np.median(spans[:, 1] - spans[:, 0]))
    order = np.argsort(middles)
    begins_row = np.flatnonzero(np.diff(middles[order]) > SIZE_TOLERANCE * side) + 1
    rows = np.split(order, begins_row)  # the patches of each row
    starts = np.array([np.median(spans[row, 0]) for row in rows])
    ends = np.array([np.median(spans[row, 1]) for row in rows])
    between = (ends[:-1] + starts[1:]) / 2
    return np.concatenate([starts[:1], between, ends[-1:]])
