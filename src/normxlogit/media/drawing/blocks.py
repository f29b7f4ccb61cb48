"""The block of a picture with coloured patches, or of a sound with coloured moments."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from markupsafe import Markup
from rich.style import Style
from rich.text import Text

from ...errors import DataError, optional_module
from ...render.blocks import Block, Column, Fold, MediumBlock, Piece, Table, cell
from ...render.charts import Grid
from ...render.html import element
from ...render.terminal import MOST_GRID_COLUMNS, tone
from ...results.storage.schema import FloatArray
from ...results.units.characters import visible
from ..units import PictureScores, SoundScores

if TYPE_CHECKING:
    from PIL.Image import Image

DrawnMedium = TypeVar("DrawnMedium", PictureScores, SoundScores)

MOST_PATCHES = 1024
"""Most patches of a picture in a drawing; more are merged with their neighbours."""

MOST_MOMENTS = 120
"""Most moments of a sound in a drawing; more are merged with their neighbours."""

BINS = 48
"""Columns of a timeline; neighbouring moments are summed."""

HEIGHTS = " ▁▂▃▄▅▆▇█"
"""Block characters by height."""

ALPHA = 0.65
"""Opacity of the colour of the strongest patch."""

STEPS = 8
"""Points for each moment of a curve of scores, so that it is drawn in steps."""

RED = (220, 38, 38)
"""The colour of positive scores, as in the other drawings."""

BLUE = (37, 99, 235)
"""The colour of negative scores, as in the other drawings."""

TEMPLATE = Path(__file__).with_name("medium.html.j2")

ROW_NAMES = ("upper", "", "lower")
"""The names of the thirds of the height of a picture."""

COLUMN_NAMES = ("left", "", "right")
"""The names of the thirds of the width of a picture."""


@dataclass(frozen=True)
class PatchesBlock(MediumBlock):
    """The patches of a picture over it, row by row, or the moments of a sound over its loudness."""

    medium: PictureScores | SoundScores

    @property
    def outline(self) -> str:
        """The outline of the loudness around an axis, as points of an SVG polygon in an area of 100 x 2."""
        loudness = loudness_of(cast(SoundScores, self.medium))  # the template asks for it of sounds alone
        above = list(zip(np.linspace(0, 100, len(loudness)).tolist(), (1 - loudness).tolist(), strict=True))
        below = [(x, 2 - y) for x, y in reversed(above)]  # the same, mirrored
        return " ".join(f"{x:.2f},{y:.3f}" for x, y in [*above, *below])

    @property
    def placed(self) -> list[tuple[str, Piece]]:
        """Each part with its place as CSS, in percent of the picture or sound."""
        percent = 100 * areas_of(self.medium)  # left, top, right and bottom, (parts, 4)
        left_top = percent[:, :2]
        places = np.concatenate([left_top, percent[:, 2:] - left_top], -1).tolist()  # (parts, 4)
        css = "left:{:.3f}%;top:{:.3f}%;width:{:.3f}%;height:{:.3f}%"
        return [(css.format(*place), piece) for place, piece in zip(places, self.parts, strict=True)]

    def strongest(self, k: int) -> list[str]:
        """Return moments, or thirds of a picture such as "upper left", with the largest shares of positive scores."""
        names = [piece.name for piece in self.parts]
        if isinstance(self.medium, PictureScores):
            areas = areas_of(self.medium)  # left, top, right and bottom as shares of the picture, (parts, 4)
            # The third that the centre of each patch is in, across and down: 0, 1 or 2.
            thirds = np.clip(3 * (areas[:, :2] + areas[:, 2:]) / 2, 0, 2).astype(int)  # (parts, 2)
            names = [f"{ROW_NAMES[y]} {COLUMN_NAMES[x]}".strip() or "centre" for x, y in thirds.tolist()]
        sums = dict.fromkeys(names, 0.0)  # of the positive scores, by moment or by third
        for name, piece in zip(names, self.parts, strict=True):
            sums[name] += max(piece.strength, 0.0)
        total = sum(sums.values())
        largest = sorted(sums, key=lambda name: -sums[name])[:k]
        return [f"{name} {sums[name] / total:.0%}" for name in largest if sums[name] > 0]  # so the total is not 0

    def html(self) -> Markup:
        """Return the picture with its patches, or the loudness of the sound with its moments."""
        return element(TEMPLATE.read_text(encoding="utf-8"), b=self)

    def lines(self) -> list[Text]:
        """Return the patches as half blocks, two rows to a line, or the moments as blocks, two to a character."""
        strengths = np.array([piece.strength for piece in self.parts])  # (parts,)
        medium = self.medium
        return _patches(medium, strengths) if isinstance(medium, PictureScores) else _moments(medium, strengths)


def _moments(sound: SoundScores, strengths: FloatArray) -> list[Text]:
    """Return a line with a block character for every two moments, as high as the sound is loud there.

    Args:
        sound: The sound.
        strengths: The colour of each moment, from -1 to 1; of two the stronger one is drawn.
    """
    line = Text(overflow="fold")
    pairs = np.split(strengths, range(2, len(strengths), 2))
    loudness = loudness_of(sound)  # at more places than there are pairs, or fewer
    ends = np.arange(len(pairs) + 1) * len(loudness) // len(pairs)
    for pair, (start, end) in zip(pairs, pairwise(ends), strict=True):
        height = round(float(loudness[start:end].max(initial=0)) * (len(HEIGHTS) - 1))
        stronger = float(pair[np.abs(pair).argmax()])
        line.append(HEIGHTS[max(1, height)], Style(color=tone(stronger)))  # also of silence a block, to have a colour
    return [line]


def _patches(picture: PictureScores, strengths: FloatArray) -> list[Text]:
    """Return lines of half-block characters, each for two rows of patches, one above the other.

    Args:
        picture: The picture.
        strengths: The colour of each patch, from -1 to 1, row by row.
    """
    magnification = max(1, MOST_GRID_COLUMNS // picture.shape[1])  # of a picture with few patches
    rows = strengths.reshape(picture.shape).repeat(magnification, 0).repeat(magnification, 1)
    rows = np.pad(rows, ((0, len(rows) % 2), (0, 0)))  # an odd last row stands above an empty one
    lines = []
    for upper_row, lower_row in zip(rows[::2], rows[1::2], strict=True):
        line = Text(overflow="fold")
        for upper, lower in zip(upper_row.tolist(), lower_row.tolist(), strict=True):
            line.append("\u2580", Style(color=tone(upper), bgcolor=tone(lower)))  # the upper half of a character
        lines.append(line)
    return lines


def media_block(
    medium: PictureScores | SoundScores, *, signed: bool, first: int | None = None, alone: bool = True
) -> PatchesBlock:
    """Return the block of a picture or a sound; see `Medium.block`.

    Args:
        medium: The picture or the sound; scores of several targets are summed, and those that are not finite are 0.
        signed: Whether scores may be negative.
        first: The number of its first part as a source of an answer; None if its parts are not sources.
        alone: Whether it is the only one, so that its parts need no name of the medium.
    """
    medium = replace(medium, scores=np.nan_to_num(medium.scores, nan=0.0, posinf=0.0, neginf=0.0))
    if isinstance(medium, PictureScores):  # each kind has a limit of its own
        medium = merge_neighbours(medium, MOST_PATCHES)
    else:
        medium = merge_neighbours(medium, MOST_MOMENTS)
    names = [name if alone else f"{medium.name}, {name}" for name in medium.part_names]
    scores = medium.scores.reshape(-1, len(names)).sum(0, keepdims=True)  # (1, parts)
    pieces = Grid([""], names, scores, signed=signed).pieces(0)  # of its only row
    sources = [None] * len(names) if first is None else range(first, first + len(names))
    parts = [piece._replace(text="", source=source) for piece, source in zip(pieces, sources, strict=True)]
    return PatchesBlock(medium, parts)


def words_over_time(sound: SoundScores, spoken: Sequence[str]) -> list[Block]:
    """Return a table of the strongest moment for each word, and a heat map of words over time.

    Args:
        sound: The sound with its scores.
        spoken: The transcript, explained.
    """
    names = [visible(name) for name in spoken]
    rows = []
    for name, scores in zip(names, sound.scores, strict=True):  # (n,)
        start, end = sound.times[int(scores.argmax())].tolist()
        share = float(scores.max(initial=0) / max(scores.clip(min=0).sum(), 1e-12))  # 0 where no score is positive
        moment = cell(sound.place_name((start, end)), start)
        rows.append([cell(name), moment, cell(f"{100 * share:.0f}%", share, strength=share)])
    columns = [Column("word"), Column("strongest moment", numbers=True), Column("of its positive sum", numbers=True)]
    supports = Table(columns, rows, f"When {visible(sound.name)} supports each word")
    return [supports, Fold("Every word over time", [grid_over_time(sound, names)])]


def grid_over_time(sound: SoundScores, names: Sequence[str]) -> Grid:
    """Return a heat map of parts of an answer over time; neighbouring moments are summed."""
    coarse = merge_neighbours(sound, BINS)
    moments = [f"{start:.2f}" for start, _ in coarse.times.tolist()]
    caption = f"What each word rests on, over the seconds of {visible(sound.name)}"
    scores = coarse.scores.reshape(len(names), -1)  # (parts, moments)
    return Grid(list(names), moments, scores, caption, caption, relative=True)


def merge_neighbours(medium: DrawnMedium, most: int) -> DrawnMedium:
    """Return a medium whose neighbouring patches or moments are merged, and their scores summed.

    Args:
        medium: The medium, with scores (..., h, w) or (..., n).
        most: Most patches or moments of the new one.
    """
    if isinstance(medium, SoundScores):
        starts = np.unique(medium.places[:, 0])  # patches of a spectrogram share their times
        merged_count = math.ceil(len(starts) / most)  # moments in a new one; 1 merges none
        new_parts = np.searchsorted(starts, medium.places[:, 0]) // merged_count  # the new one of each moment, (n,)
        shape: tuple[int, ...] = (int(new_parts.max()) + 1,)
    else:
        side = 1  # of the square of patches in a new one
        shape = medium.shape
        while np.prod(shape) > most:
            side *= 2
            shape = tuple(math.ceil(size / side) for size in medium.shape)
        rows, columns = np.indices(medium.shape) // side  # (h, w) each
        new_parts = (rows * shape[1] + columns).ravel()  # the new one of each patch, (h * w,)
    count = math.prod(shape)
    other_axes = medium.scores.shape[: -len(medium.shape)]  # of targets and layers
    scores = np.zeros((count, math.prod(other_axes)), np.float32)
    np.add.at(scores, new_parts, medium.scores.reshape(scores.shape[1], -1).T)  # sums the scores of each new one
    first_corners, last_corners = np.split(medium.flat_places, 2, -1)  # left and top, right and bottom; or seconds
    new_first = np.full((count, first_corners.shape[1]), np.inf, np.float32)
    new_last = -new_first
    np.minimum.at(new_first, new_parts, first_corners)
    np.maximum.at(new_last, new_parts, last_corners)
    places = np.concatenate([new_first, new_last], -1).reshape(*shape, -1)
    return replace(medium, scores=scores.T.reshape(*other_axes, *shape), places=places)


def loudness_of(medium: SoundScores) -> FloatArray:
    """Return the loudness of a sound over its duration, from 0 to 1, (points,).

    In its place is the magnitude of the scores if the loudness is not known.

    Args:
        medium: The sound.
    """
    if medium.loudness is not None:
        return medium.loudness
    sizes = np.abs(medium.scores.reshape(-1, *medium.shape)).max(0)  # (n,)
    magnitude: FloatArray = sizes / max(float(sizes.max()), 1e-12)
    return magnitude.repeat(STEPS)


def areas_of(medium: PictureScores | SoundScores) -> FloatArray:
    """Return left, top, right and bottom of each part as shares of the picture or sound, (parts, 4).

    A moment of a sound reaches from the top to the bottom.

    Args:
        medium: The picture or the sound.
    """
    shares: Any = medium.flat_places / np.array(medium.extent * 2, np.float32)
    return shares if isinstance(medium, PictureScores) else np.insert(shares, [1, 2], [0.0, 1.0], axis=1)


def overlay(medium: PictureScores, image: "Image") -> "Image":
    """Return a picture with its patches coloured; see `Medium.overlay`."""
    pillow = optional_module("PIL.Image", "an overlay needs Pillow: pip install 'normxlogit[vision]'")
    if medium.scores.ndim != 2:
        raise DataError("an overlay shows one score for each patch of a picture; choose a target and a layer first")
    strength = medium.scores / max(float(np.abs(medium.scores).max()), 1e-12)  # (h, w), 0 where all scores are
    colors = np.where(strength[..., None] > 0, RED, BLUE).astype(np.uint8)  # (h, w, 3)
    alpha = np.round(255 * ALPHA * np.abs(strength)).astype(np.uint8)  # (h, w)
    layer = pillow.new("RGBA", image.size, (0, 0, 0, 0))
    scale = np.array([image.width / medium.width, image.height / medium.height] * 2)
    for row, column in np.ndindex(*medium.shape):
        box = tuple(np.round(medium.places[row, column] * scale).astype(int).tolist())
        layer.paste((*colors[row, column].tolist(), int(alpha[row, column])), box)
    return pillow.alpha_composite(image.convert("RGBA"), layer).convert("RGB")
