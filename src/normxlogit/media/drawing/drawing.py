"""Pictures and sounds for drawings: with fewer parts, their places, and colours."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...errors import DataError
from ...results.storage.schema import FloatArray
from ..units import PictureScores, SoundScores

if TYPE_CHECKING:
    from PIL.Image import Image

DrawnMedium = TypeVar("DrawnMedium", PictureScores, SoundScores)

ALPHA = 0.65
"""Opacity of the colour of the strongest patch."""

STEPS = 8
"""Points for each moment of a curve of scores, so that it is drawn in steps."""

RED, BLUE = (220, 38, 38), (37, 99, 235)
"""Colours of positive and negative scores, as in the other drawings."""


def merge_neighbours(medium: DrawnMedium, most: int) -> DrawnMedium:
    """Return a medium with at most `most` patches or moments, by summing neighbours."""
    if isinstance(medium, SoundScores):
        starts = np.unique(medium.places[:, 0])  # patches of a spectrogram share their times
        merged = np.searchsorted(starts, medium.places[:, 0]) // -(-len(starts) // most)  # (n,): the new part of each
        shape: tuple[int, ...] = (int(merged.max()) + 1,)
    else:
        side, shape = 1, medium.shape
        while np.prod(shape) > most:
            side *= 2
            shape = tuple(-(-size // side) for size in medium.shape)
        rows, columns = np.indices(medium.shape) // side  # (h, w) each
        merged = (rows * shape[1] + columns).ravel()
    leading, numbers, count = medium.scores.shape[: -len(medium.shape)], medium.places.shape[-1], int(np.prod(shape))
    scores = np.zeros((count, int(np.prod(leading))), np.float32)
    np.add.at(scores, merged, medium.scores.reshape(scores.shape[1], -1).T)
    places = medium.places.reshape(-1, numbers)
    low, high = np.full((2, count, numbers // 2), np.inf, np.float32) * np.array([1, -1], np.float32)[:, None, None]
    np.minimum.at(low, merged, places[:, : numbers // 2])
    np.maximum.at(high, merged, places[:, numbers // 2 :])
    new_places = np.concatenate([low, high], -1).reshape(*shape, numbers)
    return replace(medium, scores=scores.T.reshape(*leading, *shape), places=new_places)


def course_of(medium: SoundScores) -> FloatArray:
    """Return the loudness of a sound, from 0 to 1, or the magnitude of its scores if the loudness is not known."""
    if medium.loudness is not None:
        return medium.loudness
    sizes = np.abs(medium.scores.reshape(-1, *medium.shape)).max(0)  # (n,)
    magnitude: FloatArray = sizes / max(float(sizes.max()), 1e-12)
    return magnitude.repeat(STEPS)


def areas_of(medium: PictureScores | SoundScores) -> FloatArray:
    """Return left, top, right and bottom of each part as shares of the picture or sound, (parts, 4)."""
    if isinstance(medium, PictureScores):
        sides = np.array([medium.width, medium.height] * 2, np.float32)
        shares: FloatArray = medium.places.reshape(-1, 4) / sides
        return shares
    start, end = medium.places.T / np.float32(medium.seconds or 1.0)  # (n,) each
    return np.stack([start, np.zeros_like(start), end, np.ones_like(end)], -1)


def overlay(medium: PictureScores, image: "Image") -> "Image":
    """Return a picture with its patches coloured; see `Medium.overlay`."""
    try:
        from PIL import Image as Pillow
    except ImportError:
        raise DataError("an overlay needs Pillow: pip install 'normxlogit[vision]'") from None
    if medium.scores.ndim != 2:
        raise DataError("an overlay shows one score for each patch of a picture; choose a target and a layer first")
    strength = medium.scores / max(float(np.abs(medium.scores).max()), 1e-12)  # (h, w)
    colors = np.where(strength[..., None] > 0, RED, BLUE).astype(np.uint8)  # (h, w, 3)
    alpha = np.round(255 * ALPHA * np.abs(strength)).astype(np.uint8)  # (h, w)
    layer = Pillow.new("RGBA", image.size, (0, 0, 0, 0))
    scale = np.array([image.width / medium.width, image.height / medium.height] * 2)
    for row, column in np.ndindex(*medium.shape):
        box = tuple(np.round(medium.places[row, column] * scale).astype(int).tolist())
        layer.paste((*colors[row, column].tolist(), int(alpha[row, column])), box)
    return Pillow.alpha_composite(image.convert("RGBA"), layer).convert("RGB")
