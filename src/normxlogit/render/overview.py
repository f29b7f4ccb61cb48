"""Many results as one table: what the model said of each text, and the words that it rests on most."""

from collections.abc import Sequence
from typing import NamedTuple

from ..results.attribution import Attribution, Merge
from ..results.characters import one_line, safe
from .cells import FAINT, Cell
from .layout import layout, lead, number

__all__ = ["Overview", "overview", "shortened"]

LENGTH = 160
"""Characters of a text that a row shows."""

WORDS = 4
"""Strongest words in a row."""

OPEN = 3
"""Cards that stand open: of more results the reader opens those that are of interest."""


class Line(NamedTuple):
    """A row of the table.

    Attributes:
        text: The beginning of the text.
        method: Its method.
        label: What the model said.
        chance: Its probability, or the value of a regression model.
        value: The same as a number, for sorting.
        words: The strongest words of the first label and the last layer, the strongest first.
    """

    text: str
    method: str
    label: str
    chance: str
    value: float
    words: list[Cell]


class Overview(NamedTuple):
    """The table.

    Attributes:
        lines: A row for each result.
        labels: What the model said, each once.
        methods: Whether there are several methods to tell apart.
        opened: Whether the cards stand open.
    """

    lines: list[Line]
    labels: list[str]
    methods: bool
    opened: bool


def overview(results: Sequence[Attribution], words: bool | None, merge: Merge | None) -> Overview:
    """Return the table of several results.

    Args:
        results: The results.
        words: Whether to merge tokens to words; by default where a result can tell them.
        merge: How, see `Attribution.words`.
    """
    lines = [_line(a, words, merge) for a in results]
    labels = sorted({line.label for line in lines})
    return Overview(lines, labels, len({a.method for a in results}) > 1, len(results) <= OPEN)


def shortened(text: str) -> str:
    """Return the beginning of a text on one line, as it stands in a table or heading."""
    text = one_line(text)
    return text if len(text) <= LENGTH else text[: LENGTH - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def _line(a: Attribution, words: bool | None, merge: Merge | None) -> Line:
    chance = a.prediction.probability
    return Line(
        shortened(" / ".join(t for t in (a.text, a.text_pair) if t is not None) or " ".join(a.tokens)),
        safe(a.method),
        safe(a.prediction.label),
        f"{a.prediction.value:.4g}" if chance is None else f"{100 * chance:.1f}%",
        a.prediction.value if chance is None else chance,
        _strongest(a, words, merge),
    )


def _strongest(a: Attribution, words: bool | None, merge: Merge | None) -> list[Cell]:
    drawn = layout(a, words=words, merge=merge)
    row = drawn.rows[len(a.layers or (0,)) - 1]
    cells = []
    for i in lead(row, drawn.columns, WORDS):
        strength = float(row.strengths[i])
        kind = "" if abs(strength) < FAINT else "for" if strength > 0 else "against"
        cells.append(
            Cell(
                safe(drawn.columns[i].name),
                kind,
                abs(strength),
                number(float(row.scores[i]), row.scale, signed=a.signed),
            )
        )
    return cells
