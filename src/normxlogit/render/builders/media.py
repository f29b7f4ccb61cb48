"""The block of a picture in the colours of its patches, or of a sound in those of its moments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...results.storage.schema import FloatArray
from ...results.units.media import Medium
from ..blocks import Block, Piece
from ..charts import Grid

MOST_PATCHES = 1024
"""Patches of a picture that a drawing has; more are merged with their neighbours."""

MOST_MOMENTS = 120
"""Moments of a sound that a drawing has; neighbours are summed."""

ROWS, COLUMNS = ("upper", "", "lower"), ("left", "", "right")
"""The names of the thirds of a picture."""


@dataclass(frozen=True)
class MediumBlock(Block):
    """The patches of a picture over it, or the moments of a sound over its loudness.

    Attributes:
        medium: The picture or sound.
        parts: A piece for each patch, row by row, or for each moment.
    """

    kind: ClassVar = "medium"

    medium: Medium
    parts: Sequence[Piece]

    @property
    def outline(self) -> str:
        """The course of the loudness on both sides of an axis, as points in an area of 100 x 2."""
        course = self.medium.course
        points = list(zip(np.linspace(0, 100, len(course)).tolist(), course.tolist(), strict=True))
        above, below = [f"{x:.2f},{1 - y:.3f}" for x, y in points], [f"{x:.2f},{1 + y:.3f}" for x, y in points]
        return " ".join(above + below[::-1])

    @property
    def placed(self) -> list[tuple[str, Piece]]:
        """Each part with its place as a style, in percent of the picture or sound."""
        low, high = 100 * self.medium.areas[:, :2], 100 * self.medium.areas[:, 2:]
        return [
            (f"left:{x:.3f}%;top:{y:.3f}%;width:{w:.3f}%;height:{h:.3f}%", piece)
            for (x, y), (w, h), piece in zip(low.tolist(), (high - low).tolist(), self.parts, strict=True)
        ]

    @property
    def shares(self) -> list[tuple[str, float]]:
        """The share of each moment, or third of a picture such as "top left", in what speaks for the answer.

        The largest comes first.
        """
        names = [piece.name for piece in self.parts]
        if self.medium.kind == "picture":
            areas = self.medium.areas  # (N, 4): left, top, right and bottom as shares of the picture
            thirds = np.clip(3 * (areas[:, :2] + areas[:, 2:]) / 2, 0, 2).astype(int)  # (N, 2)
            names = [f"{ROWS[y]} {COLUMNS[x]}".strip() or "centre" for x, y in thirds.tolist()]
        strengths = [max(piece.strength, 0.0) for piece in self.parts]
        total = sum(strengths) or 1.0
        shares = dict.fromkeys(names, 0.0)
        for name, strength in zip(names, strengths, strict=True):
            shares[name] += strength / total
        return sorted(shares.items(), key=lambda pair: -pair[1])


def coarser(medium: Medium) -> Medium:
    """Return the scores, 0 where they are not finite, with as many patches or moments as a drawing has at most."""
    finite = replace(medium, scores=np.nan_to_num(medium.scores, nan=0.0, posinf=0.0, neginf=0.0))
    return finite.coarser(MOST_PATCHES if medium.kind == "picture" else MOST_MOMENTS)


def media_block(
    medium: Medium, scores: FloatArray, *, signed: bool, first: int | None = None, alone: bool = True
) -> MediumBlock:
    """Return a picture or a sound in the colours of its parts, each by the largest of all.

    Args:
        medium: The picture or sound.
        scores: Of its patches, (h, w), or moments, (n,).
        signed: Whether scores have a sign.
        first: The number of its first part among the sources of links; None for no links.
        alone: Whether it is the only picture, so that patches need not say of which they are.
    """
    prefix = "" if alone else f"{medium.name}, "
    if medium.kind == "picture":
        names = [f"{prefix}row {row + 1}, column {column + 1}" for row, column in np.ndindex(scores.shape)]
    else:
        names = [f"{start:.2f} to {end:.2f} s" for start, end in medium.times.tolist()]
    fields = Grid([""], names, scores.reshape(1, -1), signed=signed).pieces(0)
    parts = [p._replace(text="", source=None if first is None else first + i) for i, p in enumerate(fields)]
    return MediumBlock(medium, parts)
