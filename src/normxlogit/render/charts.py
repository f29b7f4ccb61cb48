"""Blocks of numbers: heat maps, and the legend of their colours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..results.storage.schema import FloatArray
from .blocks import Block, Piece

MOST = 40
"""Most bars or columns of a figure: the strongest ones, in the order of the text."""


@dataclass(frozen=True)
class Grid(Block):
    """A heat map.

    Attributes:
        scores: float32, (R, C); NaN is an empty field.
        signed: Whether scores have a sign.
        special: The columns of special tokens, which have no colour.
        column_details: What else to say of a column.
        relative: Whether each row has a scale of its own.
        steps: How many rows belong to one label, where a slider marks the row it shows; 0 for no slider.
        more: How many columns are left out.
        scales: The magnitude of each row that colours and digits of numbers follow; by default the largest outside
            special tokens.
    """

    kind: ClassVar = "grid"

    rows: Sequence[str]
    columns: Sequence[str]
    scores: FloatArray
    caption: str = ""
    label: str = ""
    signed: bool = True
    special: frozenset[int] = frozenset()
    column_details: Mapping[int, str] = field(default_factory=dict)
    relative: bool = False
    steps: int = 0
    more: int = 0
    scales: Sequence[float] = ()

    def __post_init__(self) -> None:
        """Find the scale of each row."""
        if not self.scales:
            plain = [i for i in range(len(self.columns)) if i not in self.special] or list(range(len(self.columns)))
            largest = np.nan_to_num(np.abs(self.scores[:, plain])).max(1, initial=0.0)  # (R,)
            scales = largest.tolist() if self.relative else [float(largest.max(initial=0.0))] * len(self.rows)
            object.__setattr__(self, "scales", scales)

    @property
    def strengths(self) -> FloatArray:
        """The colours, from -1 to 1, (R, C)."""
        scales = np.array([scale or 1.0 for scale in self.scales], np.float32)[:, None]  # (R, 1)
        strengths: FloatArray = np.nan_to_num(self.scores / scales).clip(-1.0, 1.0)
        return strengths

    @property
    def cells(self) -> list[tuple[str, list[Piece]]]:
        """The rows with a piece for each field."""
        strengths = self.strengths.tolist()
        return [
            (name, [self._piece(row, column, strength) for column, strength in enumerate(strengths[row])])
            for row, name in enumerate(self.rows)
        ]

    def strongest(self, k: int | None) -> "Grid":
        """Return the `k` columns of the largest magnitude in any row, in their order, without special tokens."""
        sizes = np.abs(np.nan_to_num(self.strengths)).max(0, initial=0.0)  # (C,)
        order = [int(i) for i in np.argsort(-sizes, kind="stable") if i not in self.special]
        strongest_columns = sorted(order[: k or MOST])
        return replace(
            self,
            columns=[self.columns[i] for i in strongest_columns],
            scores=self.scores[:, strongest_columns],
            special=frozenset(),
            column_details={
                k: self.column_details[i] for k, i in enumerate(strongest_columns) if i in self.column_details
            },
            more=len(order) - len(strongest_columns),
        )

    def transposed(self) -> "Grid":
        """Return a grid of one scale with rows as columns; columns that are left out are named in the label."""
        omitted = f"; the {len(self.columns)} strongest of {len(self.columns) + self.more}" if self.more else ""
        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            scores=self.scores.T,
            scales=[*self.scales[:1]] * len(self.columns),
            label=self.label + omitted,
            more=0,
        )

    def _piece(self, row: int, column: int, strength: float) -> Piece:
        score = float(self.scores[row, column])
        if np.isnan(score):
            return Piece("")
        text = number(score, self.scales[row], signed=self.signed)
        details = "\n".join(filter(None, [f"({self.rows[row]})", self.column_details.get(column, "")]))
        kind = "special" if column in self.special else ""
        return Piece(text, 0.0 if kind else strength, kind, self.columns[column], text, details)


GREY = "grey: not read by the model"
"""What is said where text that the model did not read is drawn in grey."""


@dataclass(frozen=True)
class Legend(Block):
    """What the colours mean.

    Attributes:
        negative: What blue means; None for scores without a sign.
        scales: The largest magnitude of each scale; empty where each row has its own and numbers tell.
        notes: What else to know of the colours.
        strengths: The largest and the least strength that is drawn.
        unread: Whether the model did not read all of the text.
    """

    kind: ClassVar = "legend"

    positive: str
    negative: str | None = None
    scales: Sequence[float] = ()
    notes: Sequence[str] = ()
    strengths: tuple[float, float] = (1.0, -1.0)
    unread: bool = False

    def meanings(self, faintest: float) -> tuple[str, str]:
        """Return what red and blue mean; nothing of a colour that is not drawn.

        Args:
            faintest: The least strength that is coloured.
        """
        largest, least = self.strengths
        return self.positive if largest >= faintest else "", (self.negative or "") if least <= -faintest else ""

    def uncoloured(self, faintest: float) -> str:
        """Return which scores have no colour, in words.

        Args:
            faintest: The least strength that is coloured.
        """
        scales = set(self.scales)
        if not any(scales):
            return ""
        if len(scales) > 1:
            return f"no colour: less than {faintest:.0%} of the largest"
        (scale,) = scales
        limit = number(faintest * scale, scale, signed=False)
        return f"no colour: closer to 0 than {limit}" if self.negative else f"no colour: less than {limit}"


def number(score: float, scale: float, *, signed: bool = True) -> str:
    """Return a score with three digits of the largest one, so that columns of numbers line up."""
    if scale and not 1e-4 <= scale < 1e5:
        return format(score, "+.2e" if signed else ".2e")
    digits = int(np.clip(2 - np.floor(np.log10(scale)), 0, 6)) if scale else 2
    text = format(score, f"+.{digits}f" if signed else f".{digits}f")
    return text if float(text) else text.lstrip("+-")
