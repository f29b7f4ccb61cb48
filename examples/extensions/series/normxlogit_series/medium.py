"""A series in results: the places and scores of its steps, and what it is drawn as."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

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
    def extent(self) -> tuple[float, ...]:
        """How many steps it has."""
        return (float(self.places.max()),)

    @staticmethod
    def place_name(place: Any) -> str:
        """Return the number of a step."""
        return f"{place[0]:.0f}"

    def removed_together(self) -> Any:
        """Leave out each step by itself."""
        return np.arange(len(self.places))

    def block(self, *, signed: bool, first: Any = None, alone: bool = True) -> "StepsBlock":
        """Return its block."""
        largest = float(np.abs(self.scores).max()) or 1.0
        names_and_scores = zip(self.part_names, self.scores.tolist(), strict=True)
        return StepsBlock(self, [Piece(name, score, score / largest) for name, score in names_and_scores])


@dataclass(frozen=True)
class StepsBlock(MediumBlock):
    """The steps of a series, one after the other."""

    def strongest(self, count: int) -> list[str]:
        """Return the numbers of the strongest steps."""
        ranked = sorted(self.parts, key=lambda piece: -piece.strength)
        return [piece.text for piece in ranked[:count]]

    def html(self) -> Markup:
        """Return a paragraph."""
        steps = " ".join(f"{piece.text}:{piece.strength:.2f}" for piece in self.parts)
        return Markup('<p class="steps">%s</p>') % steps

    def lines(self) -> list[Text]:
        """Return a line."""
        return [Text(" ".join(f"{piece.text}:{piece.strength:.2f}" for piece in self.parts))]
