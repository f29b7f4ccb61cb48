"""A result as coloured text; where there are no colours, as marks and numbers."""

import os
import shutil
import sys
from collections.abc import Collection, Iterable
from io import StringIO
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ..results.attribution import Attribution, Merge
from ..results.characters import safe
from .layout import STEPS, Facts, Layout, Row, Segment, drawable, facts, layout, lead, level, number, uncoloured

__all__ = [
    "BOLD",
    "DIM",
    "INK",
    "STRONGEST",
    "color_of",
    "legend",
    "lines",
    "print_attribution",
    "sentence",
    "shade",
    "to_text",
    "wants_color",
]

STRONGEST = 8
"""How many tokens get their number and bar below the sentence."""

BAR = 16
UNWRAPPED = 1_000_000
"""Width of a file: lines end where the text has its own line ends."""

DIM = Style(dim=True)
BOLD = Style(bold=True)
SHADES = {True: ((150, 95, 95), (190, 20, 34)), False: ((90, 105, 150), (24, 76, 190))}
"""Background from weak to strong, for positive and negative scores, under white letters."""
INK = {True: (214, 60, 60), False: (62, 112, 220)}
"""Letters and bars; contrast of 4.5 to a black terminal and to a white one."""


def to_text(a: Attribution, *, words: bool | None = None, merge: Merge | None = None, color: bool | None = None) -> str:
    """Draw a result as text.

    Args:
        a: The result.
        words: Whether to merge tokens to words; by default where the result can tell them.
        merge: How, see `Attribution.words`.
        color: Whether to colour by ANSI codes; by default only if standard output is a terminal and the environment
            (`NO_COLOR`, `FORCE_COLOR`, `TERM=dumb`) does not say otherwise.

    Returns:
        Several lines without a line end after the last.

    Raises:
        DataError: If words are asked for and the result cannot tell them.
    """
    color = wants_color(sys.stdout) if color is None else color
    drawn, said = layout(a, words=words, merge=merge), facts(a)
    parts: list[RenderableType] = [_header(said), Text()]
    if len(drawn.rows) == 1:
        parts += [sentence(pieces, drawn.rows[0], color, drawn.sinks) for pieces in drawn.texts]
        parts += [Text(), _strongest(drawn, said, a.signed, color)]
    else:
        parts += [_rows(a, drawn, color), Text()]
    rest = uncoloured(drawn.rows, STEPS[0], signed=a.signed)
    parts.append(legend(said, color, rest, layers=a.layers is not None))
    return lines(parts, color)


def lines(parts: Iterable[RenderableType], color: bool) -> str:
    """Return what rich draws as text, one part below the other, without a line end after the last.

    Args:
        parts: What to draw.
        color: Whether to colour by ANSI codes.
    """
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
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n")).rstrip("\n")


def print_attribution(
    a: Attribution,
    *,
    words: bool | None = None,
    merge: Merge | None = None,
    color: bool | None = None,
    file: TextIO | None = None,
) -> None:
    """Print a result; arguments as in `to_text`, `file` instead of standard output.

    Characters that the stream's encoding does not have become question marks.
    """
    stream = sys.stdout if file is None else file
    text = to_text(a, words=words, merge=merge, color=wants_color(stream) if color is None else color) + "\n"
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, errors="replace").decode(encoding))


def wants_color(stream: TextIO) -> bool:
    """Return whether to write colours to a stream: `NO_COLOR`, then `FORCE_COLOR`, then `TERM`, then what it is."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return os.environ["FORCE_COLOR"] != "0"
    if os.environ.get("TERM", "").lower() in {"dumb", "unknown"}:
        return False
    return hasattr(stream, "isatty") and stream.isatty()


def _width() -> int:
    """Return the width of the terminal, or no limit where the text goes to a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNWRAPPED


def _header(said: Facts) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=DIM, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("prediction", Text(safe(said.prediction), BOLD))
    table.add_row("explained", Text(safe(said.target)))
    table.add_row("method", Text(safe(said.method)))
    table.add_row("model", Text(safe(said.model)))
    for note in said.notes:
        table.add_row("note", Text(safe(note)))
    return table


def sentence(pieces: tuple[Segment, ...], row: Row, color: bool, sinks: Collection[int] = ()) -> Text:
    """Draw one text, every piece in its shade, or with marks after it; attention sinks, by their columns, in grey."""
    line = Text(overflow="fold")
    for piece in pieces:
        strength = 0.0 if piece.column is None else float(row.strengths[piece.column])
        shown = drawable(piece)
        if piece.special:
            line.append(shown, DIM)
        elif piece.column is None:
            line.append(shown, DIM if shown.strip() else None)
        elif color:
            line.append(shown, shade(strength) or (DIM if piece.column in sinks else None))
        else:
            line.append(shown + _mark(strength))
    return line


def _rows(a: Attribution, drawn: Layout, color: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in drawn.rows:
        name = []
        if row.label is not None:
            name.append(safe(a.target.labels[row.label]))
        if row.layer is not None:
            name.append(f"layer {row.layer}")
        sentences = [sentence(pieces, row, color) for pieces in drawn.texts]
        table.add_row(Text(", ".join(name), BOLD if color else ""), Text("\n").join(sentences))
    return table


def _strongest(drawn: Layout, said: Facts, signed: bool, color: bool) -> RenderableType:
    row = drawn.rows[0]
    chosen = lead(row, drawn.columns, STRONGEST)
    if not chosen:
        return Group(Text("no token has a score other than zero", DIM), Text())
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style=DIM, no_wrap=True)
    for column in chosen:
        score = float(row.scores[column])
        length = max(1, round(abs(float(row.strengths[column])) * BAR))
        bar = Text("█" * length, Style(color=color_of(INK[score > 0]))) if color else Text("+-"[score < 0] * length)
        name = Text(safe(drawn.columns[column].name), overflow="ellipsis")
        name.truncate(32)
        side = Text(safe(said.negative) if said.negative and score < 0 else "", overflow="ellipsis")
        side.truncate(32)
        table.add_row(name, Text(number(score, row.scale, signed=signed)), bar, side)
    total = sum(not c.special for c in drawn.columns)
    more = total - len(chosen)
    return Group(table, Text(f"and {more} more" if more else "", DIM), *([Text()] if more else []))


def legend(said: Facts, color: bool, rest: str, *, layers: bool) -> Text:
    """Return what the colours or marks mean.

    Args:
        said: The result in words.
        color: Whether there are colours.
        rest: What has no colour.
        layers: Whether there are several layers.
    """
    line = Text()
    if color:
        line.append(" red ", shade(1.0)).append(f" {safe(said.positive)}   ", DIM)
        if said.negative:
            line.append(" blue ", shade(-1.0)).append(f" {safe(said.negative)}   ", DIM)
    else:
        line.append(f"(+++) {safe(said.positive)}   ")
        if said.negative:
            line.append(f"(---) {safe(said.negative)}   ")
        line.append("more signs, more weight   ")
        rest = rest.replace("colour", "mark")
    if rest:
        line.append(f"{rest}   ", DIM if color else None)
    if layers:
        line.append("each layer by its own largest score", DIM)
    line.rstrip()
    return line


def shade(strength: float) -> Style | None:
    """Return a text colour for weak scores and a background for others: dark and light terminals both show rank."""
    amount, positive = abs(strength), strength > 0
    if amount < STEPS[0]:
        return None
    if amount < 2 * STEPS[0]:
        return Style(color=color_of(INK[positive]))
    weak, strong = SHADES[positive]
    mixed = tuple(round(w + (s - w) * amount) for w, s in zip(weak, strong, strict=True))
    return Style(color="rgb(255,255,255)", bgcolor=color_of(mixed), bold=amount >= STEPS[2])


def color_of(color: tuple[int, ...]) -> str:
    """Return a colour as rich writes it."""
    return f"rgb({','.join(map(str, color))})"


def _mark(strength: float) -> str:
    signs = ("+" if strength > 0 else "-") * level(strength)
    return f"({signs})" if signs else ""
