"""Blocks as coloured text for terminals, or as marks and numbers without colours."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from itertools import chain
from typing import Any, NamedTuple, TextIO

from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table as Columns
from rich.text import Text

from ..results.units.characters import one_line, safe
from .blocks import (
    Bar,
    Block,
    Cell,
    Chat,
    Fold,
    Header,
    MediumBlock,
    OwnBlock,
    Paragraph,
    Piece,
    Pieces,
    Sentences,
    Table,
)
from .charts import FAINT, GREY, Legend

STEPS = (FAINT, 1 / 3, 2 / 3)
"""Thresholds of strength for weak, clear and strong marks; pieces below the first are not marked."""

BAR_AXIS = 16
"""The width of the axis of bars, in characters."""

NAME_WIDTH = 32
"""Most characters of the caption of a text."""

LEAST_WIDTH_WITH_BARS = 60
"""The width of a terminal, in characters, from which on bars are drawn; numbers say the same."""

NAMED_REGIONS = 3
"""How many regions of a picture are named, the strongest."""

MOST_GRID_COLUMNS = 24
"""Most columns of a picture in a terminal."""

DIM, BOLD, UNDERLINED = Style(dim=True), Style(bold=True), Style(underline=True)
STYLES = {"strong": BOLD, "read": UNDERLINED, "unsupported": BOLD + UNDERLINED}
STYLES |= dict.fromkeys(("special", "rest", "grey", "sink"), DIM)
"""The styles of pieces by kind."""
COLOR_KEYS = {1: " red ", -1: " blue "}
MARK_KEYS = {1: "(+++)", -1: "(---)"}
"""What a legend shows for positive and negative scores."""
Rgb = Sequence[int]
"""Red, green and blue, each from 0 to 255."""


class _SignColors(NamedTuple):
    """The colours of scores of one sign."""

    ink: Rgb  # of text and bars, with a contrast of 4.5 on black and white terminals
    weak: Rgb  # the background of a weak score, under white text
    strong: Rgb  # the background of the strongest score


POSITIVE = _SignColors(ink=(214, 60, 60), weak=(150, 95, 95), strong=(190, 20, 20))
NEGATIVE = _SignColors(ink=(62, 112, 220), weak=(90, 105, 150), strong=(24, 76, 190))
WHITE, GREY_PATCH = (255, 255, 255), (128, 128, 128)


def text_of_blocks(blocks: Iterable[Block], *, color: bool | None = None) -> str:
    """Draw blocks as lines of text, without a line end after the last.

    Args:
        blocks: The blocks.
        color: Whether colours are drawn; None where the output shows them.
    """
    color = wants_color(sys.stdout) if color is None else color
    return printed(_drawn(blocks, color), color=color)


def printed(parts: Iterable[RenderableType], *, color: bool) -> str:
    """Return what rich draws as the text of a terminal, without white space at the ends of lines.

    Args:
        parts: What is drawn, in its order.
        color: Whether colours are drawn.
    """
    has_all_colors = os.environ.get("COLORTERM") in {"truecolor", "24bit"}
    color_system: Any = "truecolor" if has_all_colors else "256"  # of the names that rich knows
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=_width(),
        force_terminal=color,
        color_system=color_system if color else None,
        no_color=not color,
        # Text is printed as it is, without rich's own markup, emoji names and coloured numbers.
        legacy_windows=False,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(*parts, sep="\n")
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n")).strip("\n")


def _width() -> int:
    """Return the width of the terminal; in files lines are not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 1_000_000


def wants_color(stream: TextIO) -> bool:
    """Return whether to write colours to a stream, by `NO_COLOR`, `FORCE_COLOR`, `TERM` and the stream itself."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return os.environ["FORCE_COLOR"] != "0"
    if os.environ.get("TERM", "").lower() in {"dumb", "unknown"}:
        return False
    return hasattr(stream, "isatty") and stream.isatty()


def _drawn(blocks: Iterable[Block], color: bool) -> list[RenderableType]:
    """Return each block that a terminal draws, with a blank line between two."""
    parts: list[RenderableType] = []
    marks: list[float] = []  # the strengths so far, whose signs a legend explains
    for block in blocks:
        marks += _marks(block)
        drawn = _drawn_block(block, color, marks)
        if drawn:
            parts += [Text(), *drawn]
    return parts[1:]  # without the blank line before the first


def _drawn_block(block: Block, color: bool, marks: Sequence[float]) -> list[RenderableType]:
    """Return what a terminal draws of a block; nothing of heat maps and links, which are for pages alone.

    Args:
        block: The block.
        color: Whether colours are drawn, otherwise marks.
        marks: The strengths of the blocks up to this one, whose signs a legend explains.
    """
    if isinstance(block, Fold):
        return _drawn(block.blocks, color) if block.essential else []
    if isinstance(block, Legend):
        legend = _legend(block, color, marks)
        return [legend] if legend else []
    return [_DRAW[block.kind](block, color)] if block.kind in _DRAW else []


def _marks(block: Block) -> list[float]:
    """Return the strengths that have marks where there are no colours."""
    if isinstance(block, Fold) and block.essential:
        return list(chain.from_iterable(map(_marks, block.blocks)))
    if isinstance(block, Sentences):
        texts = chain.from_iterable(row.texts for row in block.rows)
        return [piece.strength for piece in chain.from_iterable(texts)]
    if isinstance(block, Table):
        return [cell.strength for cell in chain.from_iterable(_shown_rows(block))]
    return []


def _text(text: str, style: Style | None = None) -> Text:
    """Return text without control characters; every drawn string is made by this function."""
    return Text(safe(text), style or "", overflow="fold")  # "" is rich's word for no style


def _columns(sides: Iterable[Any], rows: Iterable[Iterable[Text]]) -> Columns:
    """Return rows in columns, each aligned at a side.

    Args:
        sides: The side of each column, "left" or "right".
        rows: The cells of each row.
    """
    table = Columns.grid(padding=(0, 2, 0, 0))
    for side in sides:
        table.add_column(justify=side, overflow="fold")  # all give way where lines are narrow
    for row in rows:
        table.add_row(*row)
    return table


def _named_texts(rows: Iterable[tuple[str, Style, Text]], width: int | None = None) -> Columns:
    """Return a table of names, each in a style, and texts.

    Args:
        rows: The name, its style and the text.
        width: Most characters of a name; None for all.
    """
    table = _columns(("left", "left"), ((_text(name, style), text) for name, style, text in rows))
    names = table.columns[0]
    names.no_wrap = True  # a long one is cut at the width
    names.max_width = width
    return table


def _header(block: Header, color: bool) -> RenderableType:
    """Draw the answer in bold, then the facts and the notes."""
    answers = [("prediction", block.prediction), ("tested", block.tested)]
    facts = [*block.facts, *(("note", note) for note in block.notes)]
    rows = [(name, DIM, _text(text, BOLD)) for name, text in answers if text]
    rows += [(name, DIM, _text(text)) for name, text in facts if text]
    return _named_texts(rows)


def _sentences(block: Sentences, color: bool) -> RenderableType:
    """Draw coloured texts, under their captions in a small block, otherwise beside them."""
    drawn = [Text("\n").join(_sentence(pieces, color) for pieces in row.texts) for row in block.rows]
    captions = [one_line(row.caption) for row in block.rows]
    if not any(captions):
        return Group(*drawn)
    if block.small:
        pairs = zip(captions, drawn, strict=True)
        return Text("\n\n").join(Text("\n").join([_text(caption, DIM), text]) for caption, text in pairs)
    return _named_texts(((caption, BOLD, text) for caption, text in zip(captions, drawn, strict=True)), NAME_WIDTH)


def _sentence(pieces: Pieces, color: bool) -> Text:
    """Draw one text, with each piece coloured or followed by marks."""
    line = Text(overflow="fold")
    for piece in pieces:
        line.append_text(_text(piece.text, _style(piece, piece.strength, color)))
        if not color:
            line.append("(not read)" if piece.kind == "rest" else _mark(piece.strength))
        line.append("".join(f"[{number}]" for number in piece.cited), DIM)
    return line


def _style(piece: Piece, strength: float, color: bool) -> Style | None:
    """Return the colour of a strength; that of a piece's kind if the strength has none.

    Args:
        piece: The piece.
        strength: Its own strength, or that of its cell.
        color: Whether colours are drawn.
    """
    return (_shade(strength) if color else None) or STYLES.get(piece.kind)


def _bar(bar: Bar, color: bool) -> Text:
    """Return a bar on its axis, to the right of zero if it is positive, otherwise to the left.

    Every bar has a character at least. So the axis has one to the left of zero where some bar of the table is negative.
    """
    length = max(1, round(abs(bar.end - bar.start) * BAR_AXIS))
    # Characters to the left of zero; `start` is 0 where no bar of the table is negative.
    zero = max(1, round(bar.start * BAR_AXIS)) if bar.start else 0
    is_positive = bar.end >= bar.start
    line = Text(" " * (zero if is_positive else max(0, zero - length)))
    if color:
        return line.append("█" * length, _rgb(_sign_colors(is_positive).ink))
    return line.append(("+" if is_positive else "-") * length)


def _cell(cell: Cell, color: bool) -> Text:
    """Draw a cell: its pieces with their numbers and details, its links, and its bar where there is room."""
    line = Text(overflow="fold")
    for piece in cell.pieces:
        line.append_text(_text(piece.text, _style(piece, piece.strength or cell.strength, color)))
        details = "".join(f" {text}" for text in (piece.number, piece.details) if text)
        line.append_text(_text(f"{details}   " if details else "", DIM))
    line.rstrip()  # the space after the last piece's details
    line.append(", ".join(map(safe, cell.links)))  # their texts: a terminal has no places to lead to
    if cell.bar and _width() >= LEAST_WIDTH_WITH_BARS:
        line.append_text(_bar(cell.bar, color))
    return line


def _shown_rows(block: Table) -> list[Sequence[Cell]]:
    """Return the rows of a table that a terminal shows."""
    return [*block.rows] if block.terminal_rows is None else [block.rows[row] for row in block.terminal_rows]


def _table(block: Table, color: bool) -> RenderableType:
    """Draw a table; without colours, a column of marks follows each column with coloured cells."""
    rows = _shown_rows(block)
    left_out = len(block.rows) - len(rows)
    parts: list[RenderableType] = [_text(block.caption, DIM)] if block.caption else []
    if any(column.name for column in block.columns):  # a table of bars has no headings
        headings = [Cell((Piece(column.name, kind="special"),)) for column in block.columns]
        rows = [headings, *rows]
    parts.append(_cells(block, rows, color))
    if left_out:
        parts.append(Text(f"and {left_out} more", DIM))
    return Group(*parts)


def _cells(block: Table, rows: Sequence[Sequence[Cell]], color: bool) -> Columns:
    """Draw the cells of some rows of a table, with their marks where there are no colours.

    Args:
        block: The table.
        rows: Those of its rows that are drawn, with the headings.
        color: Whether colours are drawn.
    """
    sides: list[str] = []  # where each column is aligned
    columns: list[list[Text]] = []
    for index, column in enumerate(block.columns):
        sides.append("right" if column.numbers else "left")
        columns.append([_cell(row[index], color) for row in rows])
        has_marks = not color and any(row[index].strength for row in block.rows)
        if has_marks:
            sides.append("left")
            # In a column of their own they need no brackets.
            columns.append([Text(_mark(row[index].strength).strip("()")) for row in rows])
    return _columns(sides, zip(*columns, strict=True))


def _medium(block: MediumBlock, color: bool) -> RenderableType:
    """Draw a coloured medium, and name its strongest parts; without colours, only name them."""
    strongest = _text(f"{block.medium.name}, strongest: {', '.join(block.strongest(NAMED_REGIONS)) or 'nothing'}", DIM)
    return Group(*(block.lines() if color else []), strongest)


def _legend(block: Legend, color: bool, marks: Sequence[float]) -> Text | None:
    """Return a line with the meanings of the colours, or of the marks that are drawn, and further notes on scores.

    Args:
        block: The legend.
        color: Whether there are colours, otherwise marks.
        marks: The strengths of the pieces and cells before it.
    """
    meanings = block.meanings() if color else _meanings_of_marks(block, marks)
    notes = _notes_on_colours(block) if color else _notes_on_marks(block, are_drawn=bool(meanings))
    if not meanings and not notes:
        return None
    line = Text()
    style = DIM if color else Style()
    for sign, meaning in meanings:  # a sign, 1 or -1, is also the strength of the strongest colour
        line.append(COLOR_KEYS[sign] if color else MARK_KEYS[sign], _shade(sign) if color else None)
        line.append_text(_text(f" {meaning}   ", style))
    return line.append_text(_text("   ".join(notes), style))


def _meanings_of_marks(block: Legend, marks: Sequence[float]) -> list[tuple[int, str]]:
    """Return the signs of the marks that are drawn, 1 and -1, with their meanings; arguments as of `_legend`."""
    return [(sign, text) for sign, text in block.meanings() if any(sign * mark >= FAINT for mark in marks)]


def _notes_on_colours(block: Legend) -> list[str]:
    """Return what a legend says beside the meanings of the colours."""
    return [*block.remarks(), *block.facts, *block.styles, *([GREY] if block.unread else [])]


def _notes_on_marks(block: Legend, *, are_drawn: bool) -> Sequence[str]:
    """Return what a legend says beside the meanings of the marks, if some are drawn."""
    if not are_drawn:  # facts hold without marks, too
        return block.facts
    # Remarks speak of colours; underlines are left out, as there are none.
    remarks = (note.replace("colour", "mark") for note in block.remarks())
    return ["more signs, more weight", *remarks, *block.facts]


_DRAW: dict[str, Callable[[Any, bool], RenderableType]] = {
    Header.kind: _header,
    Paragraph.kind: lambda block, _: _text(block.text, BOLD if block.heading else DIM),
    Sentences.kind: _sentences,
    Chat.kind: lambda block, color: _sentence(block.answer.pieces, color),
    Table.kind: _table,
    MediumBlock.kind: _medium,
    OwnBlock.kind: lambda block, _: Group(*block.lines(_width())),
}
"""Functions that draw blocks; heat maps and links are for pages alone."""


def _shade(strength: float) -> Style | None:
    """Return a text colour for weak scores and a background for others, for dark and light terminals."""
    amount = abs(strength)
    if amount < FAINT:
        return None
    colors = _sign_colors(strength > 0)
    if amount < 2 * FAINT:
        return Style(color=_rgb(colors.ink))
    background = _mixture(colors.weak, colors.strong, amount)
    return Style(color=_rgb(WHITE), bgcolor=background, bold=amount >= STEPS[2])


def tone(strength: float) -> str:
    """Return the colour of a patch, between grey and that of its sign."""
    return _mixture(GREY_PATCH, _sign_colors(strength > 0).ink, min(abs(strength), 1.0))


def _sign_colors(is_positive: bool) -> _SignColors:
    return POSITIVE if is_positive else NEGATIVE


def _mixture(first: Rgb, second: Rgb, amount: float) -> str:
    """Return a mixture of two colours for rich: the first for an amount of 0, the second for 1."""
    return _rgb([round(start + (end - start) * amount) for start, end in zip(first, second, strict=True)])


def _rgb(color: Rgb) -> str:
    """Return a colour as a string for rich."""
    return f"rgb({','.join(map(str, color))})"


def _mark(strength: float) -> str:
    """Return one to three signs for a strength, as in (++); none for a faint one."""
    sign = "+" if strength > 0 else "-"
    count = sum(abs(strength) >= step for step in STEPS)
    return f"({sign * count})" if count else ""
