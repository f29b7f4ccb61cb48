"""A series in results: its steps and their scores."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from markupsafe import Markup
from rich.text import Text

from normxlogit.render.blocks import MediumBlock, Piece
from normxlogit.results.units.media import Medium


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SeriesScores(Medium):
    """A series with the scores of its steps."""

    unit_kind: ClassVar = "step"
    parts_name: ClassVar = "steps"
    removed_unit: ClassVar = ("step", "flattened")
    place_columns: ClassVar = ("first_step", "end_step")

    kind: Literal["series"] = "series"

    @property
    def extent(self):
        """How many steps it has."""
        return (float(self.places.max()),)

    @staticmethod
    def place_name(place):
        """Return the number of a step."""
        return f"{place[0]:.0f}"

    def removed_together(self):
        """Leave out each step by itself."""
        return np.arange(len(self.places))

    def block(self, *, signed, first=None, alone=True):
        """Return its block."""
        largest = float(np.abs(self.scores).max()) or 1.0
        scores = self.scores.tolist()
        pieces = [Piece(name, score, score / largest) for name, score in zip(self.part_names, scores, strict=True)]
        return StepsBlock(self, pieces)


@dataclass(frozen=True)
class StepsBlock(MediumBlock):
    """The steps of a series, one after the other."""

    def strongest(self, k):
        """Return the numbers of the strongest steps."""
        return [piece.text for piece in sorted(self.parts, key=lambda piece: -piece.strength)[:k]]

    def html(self):
        """Return a paragraph."""
        return Markup('<p class="steps">%s</p>') % " ".join(f"{p.text}:{p.strength:.2f}" for p in self.parts)

    def lines(self):
        """Return a line."""
        return [Text(" ".join(f"{piece.text}:{piece.strength:.2f}" for piece in self.parts))]
