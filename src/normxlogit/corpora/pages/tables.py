"""Tables of a summary: cells, bars on one scale, shares with how many they are of, and folded texts."""

from collections.abc import Sequence

from ...render.blocks import Bar, Cell, Column, Table, cell
from ...results.units.characters import shortened
from ..summaries.units import Share

Row = list[str | Cell]
"""The cells of a row; a text is a cell without more."""

FITTING = 5
"""Most columns that fit beside each other on a narrow page."""

LONG_TEXT = 400
"""From how many characters on a page folds a text."""

BEGINNING = 120
"""How many characters of a folded text a page shows."""


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    words: int = 1,
    caption: str = "",
    stacked: bool | None = None,
) -> Table:
    """Return a table that is sorted by a click on a column, with numbers aligned right.

    A cell that is given as a text is a number, unless it is in one of the first columns. So words in the others are
    given as a `Cell`.

    Args:
        columns: The columns' names.
        rows: The cells of each row, one for each column.
        words: How many of the first columns hold words.
        caption: What the table shows.
        stacked: Whether a narrow page draws each row as a card; by default where the columns do not fit.
    """
    cells = [[cell(content) if isinstance(content, str) else content for content in row] for row in rows]
    first_row = rows[0] if rows else columns  # by its cells it is told which columns are of numbers
    headings = []
    for index, (name, content) in enumerate(zip(columns, first_row, strict=True)):
        headings.append(Column(name, numbers=index >= words and isinstance(content, str)))
    is_stacked = len(headings) > FITTING if stacked is None else stacked
    return Table(headings, cells, caption, sortable=True, stacked=is_stacked)


def bars(values: Sequence[tuple[float, Sequence[float]]]) -> list[Bar]:
    """Return bars from 0 to some values, on one scale.

    Args:
        values: Pairs of a value and the ends of its interval, (low, high), or () without an interval.
    """
    on_scale = [0.0, *(number for value, interval in values for number in (value, *interval))]
    low, high = min(on_scale), max(on_scale)

    def position(value: float) -> float:
        """Return where a value is between the lowest and the highest, from 0 to 1."""
        return (value - low) / (high - low) if high > low else 0.0  # otherwise all of them are 0

    zero = position(0.0)
    return [Bar(zero, position(value), *map(position, interval)) for value, interval in values]


def part_of(part: int, whole: int) -> str:
    """Return a share with how many it is of, such as "57 of 100 (57%)"."""
    counts = f"{part:,} of {whole:,}"
    return f"{counts} ({percent(part / whole)})" if whole else counts


def share_text(share: Share | None) -> str:
    """Return a share with how many it is of; empty for none."""
    return "" if share is None else part_of(share.part, share.texts)


def percent(value: float) -> str:
    """Return a share in per cent; one near 0% or 100% has a decimal, so that it is not taken for these."""
    rounded = f"{value:.0%}"
    is_rounded_away = (rounded == "0%" and value > 0) or (rounded == "100%" and value < 1)
    return f"{value:.1%}" if is_rounded_away else rounded


def text_cell(text: str) -> Cell:
    """Return a cell with a text, of which a page folds a long one."""
    folded = shortened(" ".join(text.split()), BEGINNING) if len(text) > LONG_TEXT else ""
    return cell(text, folded=folded)
