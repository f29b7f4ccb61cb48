"""The places of a model's patches in a picture, measured with the model's own processor.

A processor resizes, crops, pads and cuts a picture into tiles in its own way. What it does is measured: pictures of the
same size that are black, white, and grey by the column or the row, tell from which pixel of the picture each number
comes that the processor returns.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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

SourcePixels = tuple[Float64Array, Float64Array, Float64Array]
"""Of each number that a processor returns the column and the row of the pixel that it comes from, and whether there is
one."""

SIZE_TOLERANCE = 0.25
"""Two patches count as of one size, or as in one row, within this share of a patch's side."""

CELL_QUANTILE = 0.4
"""Quantile of the sides of parts that a cell has: above the few that are partly padding, below those of the whole."""

PIXELS = "pixel_values"
"""The key of the pixel values in the output of image processors."""

KEPT_SIZES = 64
"""Sizes of pictures whose boxes are kept for the next ones."""

LEVELS = 255
"""Levels of grey from black to white: a place is told to about one of them."""

MIN_CONTRAST = 1e-3
"""A value that differs less between black and white pictures comes from no pixel."""


def sources_of(process: Callable[["Image"], Float64Array], size: Size) -> SourcePixels:
    """Measure with test pictures from which pixels a processor computes each value, for pictures of one size.

    Returns:
        The column of the pixel, its row (any numbers for padding), and whether there is one (1 or 0).
    """
    from PIL import Image

    width, height = size

    def process_grey(levels: npt.ArrayLike) -> Float64Array:
        values = np.broadcast_to(np.round(np.asarray(levels, np.float64)), (height, width)).astype(np.uint8)
        return process(Image.fromarray(np.repeat(values[..., None], 3, -1)))

    black, white = process_grey(0), process_grey(LEVELS)
    inside = np.abs(white - black) > MIN_CONTRAST
    scale = np.where(inside, white - black, 1.0)
    columns = LEVELS * (np.arange(width) + 0.5) / width
    rows = LEVELS * (np.arange(height)[:, None] + 0.5) / height
    x, y = ((process_grey(levels) - black) / scale for levels in (columns, rows))
    return x * width, y * height, inside.astype(np.float64)


class PictureBoxes:
    """Measures the boxes of parts, once for pictures of a size, by what a function returns for one picture."""

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
        tiles = round(entry.input_shape[0] * pixel_share)
        shape = (tiles, *entry.input_shape[1:])
        columns, rows, inside = sources_of(self.pixels, size)

        def patch_means(values: Float64Array) -> Float64Array:
            return entry.patch_means(torch.from_numpy(values.reshape(shape))).numpy()

        coverage = patch_means(inside)
        with np.errstate(invalid="ignore", divide="ignore"):  # nothing of a patch of padding is inside
            (left, right), (top, bottom) = (
                _even_spread(patch_means(inside * places) / coverage, patch_means(inside * places**2) / coverage)
                for places in (columns, rows)
            )
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
    """Return the boxes of the equal cells, in rows and columns, of what a processor returns for a picture, (h, w, 4).

    It resizes, crops and pads along each axis, so a place in the picture is a linear function of one in its output;
    cells of padding have no area.

    Args:
        sources: The column and row of the picture that each number comes from, (C, H, W); see `sources_of`.
        grid: How many rows and columns of cells there are, (h, w).
        size: Width and height of the picture, in pixels.
    """
    x, y, inside = sources
    edges = []
    for places, axis, cells, length in ((x, 2, grid[1], size[0]), (y, 1, grid[0], size[1])):
        others = (0, 3 - axis)
        weights = inside.sum(others)  # (W,) or (H,)
        seen = np.flatnonzero(weights)
        means = (places * inside).sum(others)[seen] / weights[seen]
        is_border = np.abs(means - length / 2) >= (length - 1) / 2 - length / LEVELS  # which is repeated in enlarging
        slope, start = np.polyfit(seen + 0.5, means, 1, w=np.where(is_border, 1e-6, 1.0))
        ends, borders = start + slope * np.array([0, len(weights)]), np.array([0, length])
        first, last = np.where(np.abs(ends - borders) < length / LEVELS, borders, ends).tolist()
        edges.append(np.clip(np.linspace(first, last, cells + 1), 0, length))
    return _boxes_between(*edges).astype(np.float32)


def equal_cells(grid: Sequence[int], size: Sequence[int]) -> FloatArray:
    """Return the boxes of equal cells in rows and columns of an area of a width and height, (h, w, 4).

    Args:
        grid: How many rows and columns there are, (h, w).
        size: Width and height of the area.
    """
    columns, rows = (np.linspace(0, side, cells + 1) for side, cells in zip(size, grid[::-1], strict=True))
    return _boxes_between(columns, rows).astype(np.float32)


def merged_boxes(boxes: Float64Array, grid: GridShape, side: int) -> Float64Array:
    """Return the boxes of blocks of (side, side) patches, from those of tiles, (tiles * h * w, 4), row by row.

    Args:
        boxes: The boxes of patches, (tiles * h * w, 4).
        grid: Rows and columns of a tile, (h, w).
        side: How many patches a block has on each side.
    """
    height, width = grid
    blocks = boxes.reshape(-1, height // side, side, width // side, side, 4)
    low, high = np.nanmin(blocks[..., :2], (2, 4)), np.nanmax(blocks[..., 2:], (2, 4))
    return np.concatenate([low, high], -1).reshape(-1, 4)


def grid_layout(boxes: Float64Array, size: Size) -> ScoreSpread | None:
    """Return a grid of places in a picture, and how the score of each patch is spread over it.

    Patches that form one grid are its places. Where a picture is read as a whole and in tiles, the smallest patches
    are, and the score of a larger one is spread over those that it covers, by their areas. Where these form no grid,
    as in tiles whose margins are padding, the places are a grid of cells as large as most of the smaller patches, over
    which every score is spread by area.

    Args:
        boxes: Left, top, right and bottom of each part in pixels, (N, 4); NaN for parts of no pixel.
        size: Width and height of the picture, in pixels.

    Returns:
        None if no part is in the picture.
    """
    boxes = np.clip(boxes, 0, [*size, *size])
    sides = boxes[:, 2:] - boxes[:, :2]  # (N, 2)
    with_area = np.flatnonzero((sides > 0).all(1))
    if not len(with_area):
        return None
    small = with_area[(sides[with_area] < (1 + SIZE_TOLERANCE) * sides[with_area].min(0) + SIZE_TOLERANCE).all(1)]
    edges = [_shared_edges(boxes[small][:, [axis, axis + 2]]) for axis in (0, 1)]
    if (len(edges[0]) - 1) * (len(edges[1]) - 1) <= len(small):
        spread = _spread(boxes, with_area, frozenset(small.tolist()), *edges)
        if spread is not None:
            return spread
    return _spread(
        boxes, with_area, frozenset(), *(_equal_cells(boxes[with_area][:, [axis, axis + 2]]) for axis in (0, 1))
    )


def _spread(
    boxes: Float64Array,
    with_area: npt.NDArray[np.intp],
    single_places: frozenset[int],
    columns: Float64Array,
    rows: Float64Array,
) -> ScoreSpread | None:
    """Return how the scores of patches are spread over a grid; None if a patch lies outside it.

    Args:
        boxes: The boxes of all parts, (N, 4).
        with_area: The parts that are spread.
        single_places: Those that are one place of the grid each, whatever rounding makes of their edges.
        columns: The edges between the columns of the grid, in pixels, (w + 1,).
        rows: The edges between its rows, (h + 1,).
    """
    left, right, top, bottom = columns[:-1], columns[1:], rows[:-1], rows[1:]
    where = _boxes_between(columns, rows)  # (h, w, 4)
    parts, place_lists, shares = [], [], []
    for part in with_area:
        x0, y0, x1, y1 = boxes[part]
        widths = np.clip(np.minimum(right, x1) - np.maximum(left, x0), 0, None)  # (w,)
        heights = np.clip(np.minimum(bottom, y1) - np.maximum(top, y0), 0, None)  # (h,)
        area = heights[:, None] * widths  # (h, w)
        if part in single_places:
            area = area * (area == area.max())
        places = np.flatnonzero(area)
        if not len(places):
            return None
        parts.append(np.full(len(places), part))
        place_lists.append(places)
        shares.append(area.ravel()[places] / area.sum())
    return ScoreSpread(
        where.astype(np.float32), np.concatenate(parts), np.concatenate(place_lists), np.concatenate(shares)
    )


def _boxes_between(columns: Float64Array, rows: Float64Array) -> Float64Array:
    """Return the boxes between the edges of columns and rows, (h, w, 4)."""
    edges = np.broadcast_arrays(columns[None, :-1], rows[:-1, None], columns[None, 1:], rows[1:, None])
    return np.stack(edges, -1)


def _equal_cells(spans: Float64Array) -> Float64Array:
    """Return the edges of equal cells that cover the spans of patches, (N, 2), as wide as most smaller patches."""
    start, end = spans[:, 0].min(), spans[:, 1].max()
    side = np.quantile(spans[:, 1] - spans[:, 0], CELL_QUANTILE)
    return np.linspace(start, end, max(1, round((end - start) / side)) + 1)


def _shared_edges(spans: Float64Array) -> Float64Array:
    """Return the edges of the rows (or columns) of a grid, from the spans of its patches along one axis, (N, 2).

    Spans with nearly the same middle are of one row; the edge between two rows is half way between their spans.
    """
    middles = spans.mean(1)
    side = float(np.median(spans[:, 1] - spans[:, 0]))
    order = np.argsort(middles)
    groups = np.split(order, np.flatnonzero(np.diff(middles[order]) > SIZE_TOLERANCE * side) + 1)
    starts, ends = (np.array([np.median(spans[group, end]) for group in groups]) for end in (0, 1))
    between = (ends[:-1] + starts[1:]) / 2
    return np.concatenate([starts[:1], between, ends[-1:]])
