"""The block of a picture with coloured patches, or of a sound with coloured moments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...render.blocks import Block, Piece
from ...render.charts import Grid
from ..units import Medium
from .drawing import areas_of, course_of, merge_neighbours

MOST_PATCHES, MOST_MOMENTS = 1024, 120
"""Most patches of a picture and moments of a sound in a drawing; more are merged with their neighbours."""

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
        """The outline of the loudness around an axis, as points in an area of 100 x 2."""
        course = course_of(self.medium)
        above = list(zip(np.linspace(0, 100, len(course)).tolist(), (1 - course).tolist(), strict=True))
        return " ".join(f"{x:.2f},{y:.3f}" for x, y in [*above, *((x, 2 - y) for x, y in reversed(above))])

    @property
    def placed(self) -> list[tuple[str, Piece]]:
        """Each part with its place as CSS, in percent of the picture or sound."""
        low, high = 100 * areas_of(self.medium)[:, :2], 100 * areas_of(self.medium)[:, 2:]
        places = np.concatenate([low, high - low], -1).tolist()  # (parts, 4)
        form = "left:{:.3f}%;top:{:.3f}%;width:{:.3f}%;height:{:.3f}%"
        return [(form.format(*place), piece) for place, piece in zip(places, self.parts, strict=True)]

    def strongest(self, k: int) -> list[str]:
        """Return the moments, or thirds of a picture such as "top left", with the largest shares of positive scores."""
        names = [piece.name for piece in self.parts]
        if self.medium.kind == "picture":
            areas = areas_of(self.medium)  # (N, 4): left, top, right and bottom as shares of the picture
            thirds = np.clip(3 * (areas[:, :2] + areas[:, 2:]) / 2, 0, 2).astype(int)  # (N, 2)
            names = [f"{ROWS[y]} {COLUMNS[x]}".strip() or "centre" for x, y in thirds.tolist()]
        sums = dict.fromkeys(names, 0.0)
        for name, piece in zip(names, self.parts, strict=True):
            sums[name] += max(piece.strength, 0.0)
        shares = sorted(sums.items(), key=lambda pair: -pair[1])
        return [f"{name} {share / sum(sums.values()):.0%}" for name, share in shares[:k] if share > 0]


def media_block(medium: Medium, *, signed: bool, first: int | None = None, alone: bool = True) -> MediumBlock:
    """Return the block of a picture or a sound, coloured relative to its largest score; many parts are merged.

    Args:
        medium: The picture or sound, with scores of a target, or of several that are summed.
        signed: Whether scores have a sign.
        first: The number of its first part among the sources of links; None for no links.
        alone: Whether it is the only picture, so that patches need not say of which they are.
    """
    medium = replace(medium, scores=np.nan_to_num(medium.scores, nan=0.0, posinf=0.0, neginf=0.0))
    medium = merge_neighbours(medium, MOST_PATCHES if medium.kind == "picture" else MOST_MOMENTS)
    prefix = "" if alone else f"{medium.name}, "
    if medium.kind == "picture":
        names = [f"{prefix}row {row + 1}, column {column + 1}" for row, column in np.ndindex(medium.shape)]
    else:
        names = [f"{start:.2f} to {end:.2f} s" for start, end in medium.times.tolist()]
    scores = medium.scores.reshape(-1, len(names)).sum(0, keepdims=True)  # (1, parts)
    fields = Grid([""], names, scores, signed=signed).pieces(0)
    parts = [p._replace(text="", source=None if first is None else first + i) for i, p in enumerate(fields)]
    return MediumBlock(medium, parts)
