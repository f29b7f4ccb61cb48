"""The blocks of a picture in the colours of its patches, and of a sound in those of its moments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...results.storage.schema import FloatArray
from ...results.units.media import MediumScores
from ..blocks import Block, Piece
from ..charts import number

MOST_PATCHES = 1024
"""Patches of a picture that a drawing has; more are merged with their neighbours."""

MOST_MOMENTS = 120
"""Moments of a sound that a drawing has; neighbours are summed."""

ROWS, COLUMNS = ("upper", "", "lower"), ("left", "", "right")
"""The names of the thirds of a picture."""


@dataclass(frozen=True)
class PictureBlock(Block):
    """A grid of patches over a picture.

    Attributes:
        medium: The picture.
        parts: A piece for each patch, row by row.
    """

    kind: ClassVar = "picture"

    medium: MediumScores
    parts: Sequence[Piece]

    @property
    def region_names(self) -> list[str]:
        """Where each patch's middle is on a grid of three by three, such as "top left"."""
        areas = self.medium.areas  # (N, 4): left, top, right and bottom as shares of the picture
        middles = (areas[:, :2] + areas[:, 2:]) / 2
        cells = np.clip(3 * middles, 0, 2).astype(int)
        return [f"{ROWS[y]} {COLUMNS[x]}".strip() or "centre" for x, y in cells.tolist()]


@dataclass(frozen=True)
class Waveform(Block):
    """Moments over the loudness of a sound.

    Attributes:
        medium: The sound.
        parts: A piece for each moment.
    """

    kind: ClassVar = "waveform"

    medium: MediumScores
    parts: Sequence[Piece]

    @property
    def outline(self) -> str:
        """The course of the loudness on both sides of an axis, as points in an area of 100 x 2."""
        course = self.medium.course.tolist()
        places = np.linspace(0, 100, len(course)).tolist()
        above = [f"{x:.2f},{1 - y:.3f}" for x, y in zip(places, course, strict=True)]
        below = [f"{x:.2f},{1 + y:.3f}" for x, y in zip(places, course, strict=True)]
        return " ".join(above + below[::-1])

    @property
    def region_names(self) -> list[str]:
        """The time of each moment."""
        return [piece.name for piece in self.parts]


def placed(block: PictureBlock | Waveform) -> list[tuple[str, Piece]]:
    """Return each part with its place as a style, in percent of the picture or sound."""
    low, high = 100 * block.medium.areas[:, :2], 100 * block.medium.areas[:, 2:]
    return [
        (f"left:{x:.3f}%;top:{y:.3f}%;width:{w:.3f}%;height:{h:.3f}%", piece)
        for (x, y), (w, h), piece in zip(low.tolist(), (high - low).tolist(), block.parts, strict=True)
    ]


def region_shares(block: PictureBlock | Waveform) -> list[tuple[str, float]]:
    """Return the share of each region in what speaks for the answer, the largest first."""
    strengths = [max(piece.strength, 0.0) for piece in block.parts]
    total = sum(strengths) or 1.0
    shares = dict.fromkeys(block.region_names, 0.0)
    for name, strength in zip(block.region_names, strengths, strict=True):
        shares[name] += strength / total
    return sorted(shares.items(), key=lambda pair: -pair[1])


def coarser(medium: MediumScores) -> MediumScores:
    """Return the scores with as many patches or moments as a drawing has at most."""
    return medium.coarser(MOST_PATCHES if medium.kind == "picture" else MOST_MOMENTS)


def media_block(
    medium: MediumScores, scores: FloatArray, *, signed: bool, first: int | None = None, alone: bool = True
) -> PictureBlock | Waveform:
    """Return a picture or a sound in the colours of its parts, each by the largest of all.

    Args:
        medium: The picture or sound.
        scores: Of its patches, (h, w), or moments, (n,).
        signed: Whether scores have a sign.
        first: The number of its first part among the sources of links; None for no links.
        alone: Whether it is the only picture, so that patches need not say of which they are.
    """
    if medium.kind == "picture":
        prefix = "" if alone else f"{medium.name}, "
        names = [f"{prefix}row {row + 1}, column {column + 1}" for row, column in np.ndindex(scores.shape)]
    else:
        names = [f"{start:.2f} to {end:.2f} s" for start, end in medium.times.tolist()]
    scores = np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)
    scale = float(np.abs(scores).max()) or 1.0
    parts = [
        Piece("", score / scale, name=name, number=number(score, scale, signed=signed), source=source)
        for name, score, source in zip(
            names,
            scores.ravel().tolist(),
            [None] * scores.size if first is None else range(first, first + scores.size),
            strict=True,
        )
    ]
    return PictureBlock(medium, parts) if medium.kind == "picture" else Waveform(medium, parts)
