"""Headings and tables in Markdown, drawn for a terminal."""

import re

from rich import box
from rich.console import RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ..results.characters import safe
from .terminal import lines

__all__ = ["tables_to_text"]


def tables_to_text(markdown: str, *, color: bool) -> str:
    """Draw text whose tables are Markdown; a method's name is folded, never cut.

    Args:
        markdown: Paragraphs and tables with blank lines between them.
        color: Whether to use ANSI codes.

    Returns:
        Several lines without a line end after the last.
    """
    parts: list[RenderableType] = []
    for block in re.split(r"\n\s*\n", safe(markdown).strip("\n")):
        rows = block.splitlines()
        is_table = len(rows) > 1 and re.fullmatch(r"\|[\s:|-]+\|", rows[1]) is not None
        parts += [_table(rows) if is_table else _inline(block), Text()]
    return lines(parts, color)


def _table(rows: list[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    right = [cell.endswith(":") for cell in _cells(rows[1])]
    for place, (heading, to_right) in enumerate(zip(_cells(rows[0]), right, strict=True)):
        table.add_column(_inline(heading), justify="right" if to_right else "left", overflow="fold", ratio=place == 0)
    for row in rows[2:]:
        table.add_row(*map(_inline, _cells(row)))
    return table


def _cells(row: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip()[1:-1])]


def _inline(text: str) -> Text:
    """Return text with its bold and underlined pieces."""
    drawn = Text()
    for bold, underlined, code, plain in re.findall(
        r"\*\*(.+?)\*\*|<u>(.+?)</u>|`([^`]+)`|(.[^*<`]*)", text, re.DOTALL
    ):
        style = Style(bold=True) if bold else Style(underline=True) if underlined else Style()
        drawn.append(bold or underlined or code or plain, style)
    return drawn
