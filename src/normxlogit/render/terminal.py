"""Blocks as coloured text; where there are no colours, as marks and numbers."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from typing import Any, TextIO

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table as Columns
from rich.text import Text

from ..results.units.characters import safe
from .blocks import Bar, Block, Chat, Fold, Header, Paragraph, Piece, Sentences, Table
from .builders.media import MediumBlock
from .charts import GREY, Grid, Legend

STEPS = (0.1, 1 / 3, 2 / 3)
"""Strengths from which a piece is weakly, clearly or strongly marked; below the first it is left alone."""

BAR = 16
"""Characters of the axis of bars."""

NAME_WIDTH = 32
"""Most characters of the caption of a text."""

NARROW = 60
"""Columns of a terminal below which there are no bars, which the numbers repeat."""

NAMED = 3
"""Regions of a picture that are named."""

GRID = 24
"""Most columns of a heat map that fits a terminal."""

UNWRAPPED = 1_000_000
"""Width of a file: lines end where the text has its own line ends."""

DIM = Style(dim=True)
BOLD = Style(bold=True)
UNDERLINED = Style(underline=True)
STYLES = {
    "strong": BOLD,
    "underlined": UNDERLINED,
    "read": UNDERLINED,
    "unsupported": BOLD + UNDERLINED,
} | dict.fromkeys(("special", "rest", "grey", "sink"), DIM)
"""The kinds of pieces."""
SHADES = {True: ((150, 95, 95), (190, 20, 20)), False: ((90, 105, 150), (24, 76, 190))}
"""Background from weak to strong, for positive and negative scores, under white letters."""
INK = {True: (214, 60, 60), False: (62, 112, 220)}
"""Letters and bars; contrast of 4.5 to a black terminal and to a white one."""
HEIGHTS = " ▁▂▃▄▅▆▇█"
"""A score on a time axis."""


def text_of_blocks(blocks: Iterable[Block], *, color: bool | None = None) -> str:
    """Draw blocks as text.

    Returns:
        Several lines without a line end after the last.
    """
    color = wants_color(sys.stdout) if color is None else color
    return _printed(_drawn(blocks, color), color=color)


def text_of_markdown(markdown: str) -> str:
    """Draw headings and tables in Markdown as text; what is underlined, which Markdown knows as HTML, is emphasised."""
    from rich.markdown import Markdown

    document = Markdown(re.sub("</?u>", "*", safe(markdown)), hyperlinks=False)
    return _printed([document], color=wants_color(sys.stdout))


def _printed(parts: Iterable[RenderableType], *, color: bool) -> str:
    """Return what a terminal shows, without white space at the ends of lines."""
    buffer = StringIO()
    console = Console(
        file=buffer,
        force_terminal=color,
        color_system=("truecolor" if os.environ.get("COLORTERM") in {"truecolor", "24bit"} else "256")
        if color
        else None,
        no_color=not color,
        width=_width(),
        legacy_windows=False,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n")).strip("\n")


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNWRAPPED


def wants_color(stream: TextIO) -> bool:
    """Return whether to write colours to a stream: `NO_COLOR`, then `FORCE_COLOR`, then `TERM`, then what it is."""
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
    for block in blocks:
        if isinstance(block, Fold):
            parts += [Text(), *_drawn(block.blocks, color)] if block.essential else []
        elif block.kind in _DRAW:
            parts += [Text(), _DRAW[block.kind](block, color)]
    return parts[1:]


def _text(text: str, style: Style | None = None) -> Text:
    """Return text without control characters; every string that is drawn goes through here."""
    return Text(safe(text), style or "", overflow="fold")


def _columns(*justify: str) -> Columns:
    table = Columns.grid(padding=(0, 2, 0, 0))
    for side in justify:
        table.add_column(justify=side, no_wrap=side == "right", overflow="fold")  # type: ignore[arg-type]
    return table


def _header(block: Header, color: bool) -> RenderableType:
    table = _columns("left", "left")
    table.columns[0].no_wrap = True
    rows = [("prediction", block.prediction)] if block.prediction else []
    rows += [("tested", block.tested)] if block.tested else []
    for name, value in [*rows, *block.facts, *(("note", note) for note in block.notes)]:
        table.add_row(_text(name, DIM), _text(value, BOLD if name in ("prediction", "tested") else None))
    return table


def _paragraph(block: Paragraph, color: bool) -> RenderableType:
    return _text(block.text, DIM)


def _sentences(block: Sentences, color: bool) -> RenderableType:
    """Draw texts in colour: under their captions in a small block, otherwise beside them."""
    drawn = [Text("\n").join(_sentence(pieces, color) for _, pieces in row.texts) for row in block.rows]
    if not any(row.caption for row in block.rows):
        return Group(*drawn)
    if block.small:
        return Text("\n\n").join(
            Text("\n").join([_text(row.caption, DIM), text]) for row, text in zip(block.rows, drawn, strict=True)
        )
    table = _columns("left", "left")
    captions = table.columns[0]
    captions.no_wrap, captions.max_width = True, NAME_WIDTH
    for row, text in zip(block.rows, drawn, strict=True):
        table.add_row(_text(row.caption, BOLD), text)
    return table


def _chat(block: Chat, color: bool) -> RenderableType:
    return Group(*(_sentence(pieces, color) for _, pieces in block.answer.runs))


def _sentence(pieces: Sequence[Piece], color: bool) -> Text:
    """Draw one text, every piece in its colour, or with marks after it."""
    line = Text(overflow="fold")
    for piece in pieces:
        line.append_text(_text(piece.text, _style(piece, piece.strength, color)))
        if not color:
            line.append("(not read)" if piece.kind == "rest" else _mark(piece.strength))
        line.append("".join(f"[{n}]" for n in piece.cited), DIM)
    return line


def _style(piece: Piece, strength: float, color: bool) -> Style | None:
    """Return the style of a piece: its colour, or that of its kind."""
    shade = _shade(strength) if color else None
    return shade or STYLES.get(piece.kind)


def _bar(bar: Bar, color: bool) -> Text:
    """Return a bar in its place on the axis: to the right of its zero, or to the left."""
    length, positive = max(1, round(abs(bar.end - bar.start) * BAR)), bar.end >= bar.start
    zero = max(1, round(bar.start * BAR)) if bar.start else 0
    line = Text(" " * (zero if positive else max(0, zero - length)))
    return line.append("█" * length, _rgb(INK[positive])) if color else line.append("-+"[positive] * length)


def _table(block: Table, color: bool) -> RenderableType:
    marked = {i for row in block.rows for i, cell in enumerate(row) if cell.strength and not color}
    sides = [
        ["right" if column.numbers else "left"] + ["left"] * (i in marked) for i, column in enumerate(block.columns)
    ]
    table = _columns(*(side for column in sides for side in column))
    if any(column.name for column in block.columns):
        names = [[_text(column.name, DIM), *[Text()] * (i in marked)] for i, column in enumerate(block.columns)]
        table.add_row(*(text for column in names for text in column))
    terminal_rows = range(len(block.rows)) if block.terminal_rows is None else block.terminal_rows
    for i in terminal_rows:
        cells = []
        for index, cell in enumerate(block.rows[i]):
            line = Text(overflow="fold")
            for piece in cell.pieces:
                line.append_text(_text(piece.text, _style(piece, piece.strength or cell.strength, color)))
                details = "".join(f" {text}" for text in (piece.number, piece.details) if text)
                line.append_text(_text(f"{details}   " if details else "", DIM))
            line.rstrip()
            line.append(", ".join(map(safe, cell.links)))
            if cell.bar and _width() >= NARROW:
                line.append_text(_bar(cell.bar, color))
            cells += [line, *[Text(_mark(cell.strength).strip("()"))] * (index in marked)]
        table.add_row(*cells)
    left_out = len(block.rows) - len(terminal_rows)
    parts: list[RenderableType] = [_text(block.caption, DIM)] if block.caption else []
    return Group(*parts, table, *([Text(f"and {left_out} more", DIM)] if left_out else []))


def _grid(block: Grid, color: bool) -> RenderableType:
    if len(block.columns) > GRID:
        return _text(f"{block.caption}: {len(block.rows)} x {len(block.columns)} scores, which a page shows", DIM)
    table = _columns("right", *("right" for _ in block.columns))
    table.add_row("", *(_text(name, DIM) for name in block.columns))
    for i, name in enumerate(block.rows):
        pieces = block.pieces(i)
        table.add_row(_text(name, DIM), *(_text(p.text, _shade(p.strength) if color else None) for p in pieces))
    return Group(_text(block.caption, DIM), table)


def _medium(block: MediumBlock, color: bool) -> RenderableType:
    """Draw a picture or a sound in its colours, and name what is strongest; without colours only that."""
    shares = [f"{name} {share:.0%}" for name, share in block.shares[:NAMED] if share > 0]
    strongest = _text(f"{block.medium.name}, strongest: {', '.join(shares) or 'nothing'}", DIM)
    drawn = (_patches(block) if block.medium.kind == "picture" else [_moments(block)]) if color else []
    return Group(*drawn, strongest)


def _moments(block: MediumBlock) -> Text:
    """Return one character for each two moments, as high as the sound is loud."""
    line = Text(overflow="fold")
    strengths = np.array([piece.strength for piece in block.parts])
    loudness = block.medium.course
    pairs = np.split(strengths, range(2, len(strengths), 2))
    for i, pair in enumerate(pairs):
        part = slice(*(len(loudness) * place // len(pairs) for place in (i, i + 1)))
        height = HEIGHTS[round(float(loudness[part].max(initial=0)) * (len(HEIGHTS) - 1))]
        line.append(height if height.strip() else HEIGHTS[1], Style(color=_tone(float(pair[np.abs(pair).argmax()]))))
    return line


def _patches(block: MediumBlock) -> list[Text]:
    """Return two rows of patches as a line of half blocks."""
    rows, columns = block.medium.shape
    times = max(1, GRID // columns)
    strengths = np.array([piece.strength for piece in block.parts]).reshape(rows, columns)
    enlarged = strengths.repeat(times, 0).repeat(times, 1)
    lines = []
    for upper, lower in zip(enlarged[::2], np.pad(enlarged, ((0, len(enlarged) % 2), (0, 0)))[1::2], strict=True):
        line = Text(overflow="fold")
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            line.append("\u2580", Style(color=_tone(above), bgcolor=_tone(below)))
        lines.append(line)
    return lines


def _tone(strength: float) -> str:
    """Return the colour of a patch, from grey to the sign's own."""
    grey, full = (128, 128, 128), INK[strength > 0]
    return _rgb(tuple(round(g + (f - g) * min(abs(strength), 1.0)) for g, f in zip(grey, full, strict=True)))


def _legend(block: Legend, color: bool) -> RenderableType:
    line = Text()
    entries = [block.uncoloured(STEPS[0]), *block.notes]
    positive, negative = block.meanings(STEPS[0])
    if color:
        keys = [(" red ", 1.0, positive), (" blue ", -1.0, negative)]
        entries += [GREY] if block.unread else []
    else:
        keys = [("(+++)", 0.0, positive), ("(---)", 0.0, negative)]
        entries = ["more signs, more weight", *(note.replace("colour", "mark") for note in entries)]
    for key, strength, meaning in keys:
        if meaning:
            line.append(key, _shade(strength)).append_text(_text(f" {meaning}   ", DIM if color else None))
    line.append_text(_text("   ".join(filter(None, entries)), DIM if color else None))
    return line


_DRAW: dict[str, Callable[[Any, bool], RenderableType]] = {
    Header.kind: _header,
    Paragraph.kind: _paragraph,
    Sentences.kind: _sentences,
    Chat.kind: _chat,
    Table.kind: _table,
    Grid.kind: _grid,
    MediumBlock.kind: _medium,
    Legend.kind: _legend,
}
"""The blocks that a terminal draws; links and curves are for pages."""


def _shade(strength: float) -> Style | None:
    """Return a text colour for weak scores and a background for others: dark and light terminals both show rank."""
    amount, positive = abs(strength), strength > 0
    if amount < STEPS[0]:
        return None
    if amount < 2 * STEPS[0]:
        return Style(color=_rgb(INK[positive]))
    weak, strong = SHADES[positive]
    mixed = tuple(round(w + (s - w) * amount) for w, s in zip(weak, strong, strict=True))
    return Style(color="rgb(255,255,255)", bgcolor=_rgb(mixed), bold=amount >= STEPS[2])


def _rgb(color: tuple[int, ...]) -> str:
    """Return a colour as rich writes it."""
    return f"rgb({','.join(map(str, color))})"


def _mark(strength: float) -> str:
    """Return the signs of a piece where there are no colours."""
    signs = ("+" if strength > 0 else "-") * sum(abs(strength) >= step for step in STEPS)
    return f"({signs})" if signs else ""
