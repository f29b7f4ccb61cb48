"""Grids of scores, which are heat maps and give texts, tables and plots their colours, and legends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..results.storage.schema import FloatArray
from .blocks import Block, Piece

MOST_COLUMNS = 40
"""Most bars or columns of a figure."""

FAINT = 0.1
"""The share of the largest score below which there is neither a colour nor a mark."""

GREY = "grey: not read by the model"
"""The remark on grey text."""


@dataclass(frozen=True)
class Grid(Block):
    """Rows and columns of scores; NaN is an empty field.

    Attributes:
        kinds: What each column is, see `Piece.kind`. Only plain columns and sinks set the scale, as far as there are
            some; special ones have no colour.
        relative: Whether each row has a scale of its own.
        steps: How many layers each label has a row for, which a slider marks; rows of a layer share their scale.
        scales: The magnitude of each row that colours and digits of numbers follow.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    scores: FloatArray  # (R, C)
    caption: str = ""
    label: str = ""
    signed: bool = True
    kinds: Sequence[str] = ()
    details: Sequence[str] = ()
    relative: bool = False
    steps: int = 0
    more: int = 0  # columns that are left out
    scales: Sequence[float] = ()

    def __post_init__(self) -> None:
        """Fill in the kinds and details of columns, and the scale of each row."""
        nothing = [""] * len(self.columns)
        # The grid is frozen: its own fields are set past it.
        object.__setattr__(self, "kinds", self.kinds or nothing)
        object.__setattr__(self, "details", self.details or nothing)
        object.__setattr__(self, "scales", self.scales or self._own_scales())

    def _own_scales(self) -> list[float]:
        """Return the largest magnitude that sets the scale of each row, (R,): of all rows, of a layer's, or its own."""
        scored = self.ranked or range(len(self.columns))  # special tokens where there is nothing else
        largest = np.nan_to_num(np.abs(self.scores[:, scored])).max(1, initial=0.0)  # (R,), 0 without columns
        scale_count = self.steps or (len(self.rows) if self.relative else 1) or 1  # S: one for each layer, row, or all
        # Rows go through all layers of a label, then of the next: those of one layer are S rows apart.
        scales = largest.reshape(-1, scale_count).max(0, initial=0.0).tolist()  # (S,)
        return list(scales * (len(self.rows) // scale_count))

    @cached_property
    def plain(self) -> list[int]:
        """The columns that are not special tokens."""
        return [column for column, kind in enumerate(self.kinds) if kind != "special"]

    @cached_property
    def ranked(self) -> list[int]:
        """The columns with ranks and colours: all but special tokens and the answer's position, if any are left."""
        return [column for column in self.plain if self.kinds[column] != "read"] or self.plain

    @property
    def _scaled(self) -> FloatArray:
        """The scores by the scales of their rows, (R, C); 0 in an empty field."""
        # A row of zeros has the scale 0, by which nothing is divided.
        scales = np.array([scale or 1.0 for scale in self.scales], np.float32)[:, None]  # (R, 1)
        return np.asarray(np.nan_to_num(self.scores / scales))

    @cached_property
    def strengths(self) -> FloatArray:
        """The colours, from -1 to 1, (R, C)."""
        scaled = self._scaled.clip(-1.0, 1.0)  # columns that set no scale may exceed it
        strengths = np.zeros_like(scaled)
        strengths[:, self.ranked] = scaled[:, self.ranked]
        return strengths

    def number(self, row: int, column: int) -> str:
        """Return a score as text.

        Args:
            row: The index of its row.
            column: The index of its column.
        """
        return number(float(self.scores[row, column]), self.scales[row], signed=self.signed)

    def pieces(self, row: int) -> list[Piece]:
        """Return the fields of a row."""
        return [self._piece(row, column) for column in range(len(self.columns))]

    def _piece(self, row: int, column: int) -> Piece:
        """Return a field; a piece without a text if it is empty."""
        if np.isnan(self.scores[row, column]):
            return Piece("")
        number_text, row_name = self.number(row, column), self.rows[row]
        return Piece(
            number_text,
            strength=float(self.strengths[row, column]),
            kind=self.kinds[column],
            name=self.columns[column],
            number=number_text,
            # The row is named where there are several.
            details="\n".join(filter(None, [row_name and f"({row_name})", self.details[column]])),
            column=column,
        )

    def strongest(self, row: int, k: int | None = None) -> list[int]:
        """Return the ranked columns of a row, the one of the largest magnitude first, without those of a score of 0.

        Args:
            row: The index of the row.
            k: How many; None for all.
        """
        scores = self.scores[row, self.ranked]
        order = np.argsort(-np.abs(scores), kind="stable")
        return [self.ranked[index] for index in order if scores[index] != 0][:k]

    def strongest_pieces(self, row: int, k: int) -> tuple[Piece, ...]:
        """Return the names of the strongest columns of a row with their scores.

        Args:
            row: The index of the row.
            k: How many.
        """
        strengths = self.strengths[row].tolist()
        return tuple(
            Piece(self.columns[column], strengths[column], number=self.number(row, column))
            for column in self.strongest(row, k)
        )

    def best(self, k: int | None) -> "Grid":
        """Return the `k` columns of the largest magnitude in any row, in their order, without special tokens."""
        sizes = np.abs(self._scaled[:, self.plain]).max(0, initial=0.0)  # (plain,)
        order = [self.plain[i] for i in np.argsort(-sizes, kind="stable")]
        return self.take(sorted(order[: k or MOST_COLUMNS]), len(order))

    def take(self, columns: Sequence[int], available: int) -> "Grid":
        """Return some of the columns, with the scales of all.

        Args:
            columns: The indices of the columns.
            available: From how many they were chosen: a drawing says how many are left out.
        """
        names = [self.columns[i] for i in columns]
        more = max(0, available - len(columns))
        # `scales` stay as they are, those of all columns; a figure tells no kinds apart.
        return replace(self, columns=names, scores=self.scores[:, columns], kinds=(), details=(), more=more)


@dataclass(frozen=True)
class Legend(Block):
    """The meaning of the colours; `facts` hold where nothing is coloured too."""

    positive: str
    negative: str | None = None  # None for scores without a sign
    notes: Sequence[str] = ()
    facts: Sequence[str] = ()
    styles: Sequence[str] = ()  # such as underlines
    grid: Grid | None = None  # where all that have no colour can be told by one limit or share
    unread: bool = False  # whether the model did not read all of the text

    def meanings(self) -> list[tuple[int, str]]:
        """Return the signs of the colours that are drawn, 1 and -1, with their meanings."""
        signs = ((1, self.positive), (-1, self.negative))
        return [(sign, meaning) for sign, meaning in signs if meaning and self._is_drawn(sign)]

    def _is_drawn(self, sign: int) -> bool:
        """Return whether a score of a sign has a colour; true of both where the scores are not known."""
        return self.grid is None or bool((sign * self.grid.strengths).max(initial=0.0) > 0)

    def remarks(self) -> list[str]:
        """Return the notes on the colours, with that on which scores have none."""
        scales = set(self.grid.scales if self.grid else ())
        if not any(scales):  # nothing is known of the scores, or all are 0
            return [*self.notes]
        if len(scales) > 1:  # no single number is the limit of all rows
            return [f"no colour: less than {FAINT:.0%} of the largest", *self.notes]
        scale = max(scales)
        limit = number(FAINT * scale, scale, signed=False)
        return [f"no colour: {'closer to 0' if self.negative else 'less'} than {limit}", *self.notes]


def number(score: float, scale: float, *, signed: bool = True) -> str:
    """Return a score as text, rounded so that the largest one has three digits and columns of numbers line up.

    Args:
        score: The score.
        scale: The magnitude of the largest score.
        signed: Whether a plus sign is written.
    """
    plus = "+" if signed else ""
    if scale and not 1e-4 <= scale < 1e5:  # digits before or behind the point would be many
        return format(score, f"{plus}.2e")
    digits = min(max(2 - math.floor(math.log10(scale)), 0), 6) if scale else 2  # behind the point; 2 where all are 0
    text = format(score, f"{plus}.{digits}f")
    is_zero = float(text) == 0  # has no sign
    return text.lstrip("+-") if is_zero else text
