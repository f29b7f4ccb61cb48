"""Grids of places in a picture, over which the scores of its patches are spread."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...inputs.encoded_media import ScoreSpread
from ...results.storage.schema import Float64Array, FloatArray

Size = tuple[int, int]
"""Width and height of a picture, in pixels."""

GridShape = tuple[int, int]
"""Rows and columns of patches."""

SIZE_TOLERANCE = 0.25
"""Two patches count as of one size, or as in one row, within this share of a patch's side."""

CELL_QUANTILE = 0.4
"""Quantile of the sides of parts that a cell has: above the few that are partly padding, below those of the whole."""


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
    return boxes_between(columns, rows).astype(np.float32)


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
    # Beside the share of a side, a part of a pixel is tolerated: tiny patches are measured no better.
    is_small = (sides[with_area] < (1 + SIZE_TOLERANCE) * smallest_sides + SIZE_TOLERANCE).all(1)
    small = with_area[is_small]
    columns = _shared_edges(boxes[small, 0::2])  # of left and right
    rows = _shared_edges(boxes[small, 1::2])  # of top and bottom
    place_count = (len(columns) - 1) * (len(rows) - 1)
    if place_count <= len(small):  # a place without a small patch of its own would mean that they form no grid
        spread = _spread(boxes, with_area, frozenset(small.tolist()), columns, rows)
        if spread is not None:
            return spread
    columns = _edges_of_cells(boxes[with_area, 0::2])
    rows = _edges_of_cells(boxes[with_area, 1::2])
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
            overlaps = overlaps * (overlaps == overlaps.max())  # keeps its own place, not slivers of its neighbours
        places = np.flatnonzero(overlaps)
        if not len(places):  # the edges are not those of this patch: the grid does not hold for the picture
            return None
        patches_of_entries.append(np.full(len(places), patch))
        places_of_entries.append(places)
        shares.append(overlaps.ravel()[places] / overlaps.sum())
    return ScoreSpread(
        where=boxes_between(columns, rows).astype(np.float32),
        parts=np.concatenate(patches_of_entries),
        places=np.concatenate(places_of_entries),
        shares=np.concatenate(shares),
    )


def boxes_between(columns: Float64Array, rows: Float64Array) -> Float64Array:
    """Return the boxes of a grid, (h, w, 4): left, top, right and bottom of each.

    Args:
        columns: The edges of its columns, (w + 1,).
        rows: The edges of its rows, (h + 1,).
    """
    edges = np.broadcast_arrays(columns[None, :-1], rows[:-1, None], columns[None, 1:], rows[1:, None])
    return np.stack(edges, -1)


def _edges_of_cells(spans: Float64Array) -> Float64Array:
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
