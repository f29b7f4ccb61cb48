"""Headings and tables in Markdown as blocks."""

import re

from .blocks import Block, Cell, Column, Paragraph, Piece, Table


def markdown_blocks(markdown: str) -> list[Block]:
    """Return paragraphs and tables, with blank lines between them, as blocks."""
    blocks: list[Block] = []
    for part in re.split(r"\n\s*\n", markdown.strip("\n")):
        rows = part.splitlines()
        is_table = len(rows) > 1 and re.fullmatch(r"\|[\s:|-]+\|", rows[1]) is not None
        blocks.append(_table(rows) if is_table else Paragraph("".join(piece.text for piece in _pieces(part))))
    return blocks


def _table(rows: list[str]) -> Table:
    right = [text.endswith(":") for text in _cells(rows[1])]
    names = ["".join(piece.text for piece in _pieces(text)) for text in _cells(rows[0])]
    columns = [Column(name, numbers) for name, numbers in zip(names, right, strict=True)]
    return Table(columns, [[Cell(tuple(_pieces(text))) for text in _cells(row)] for row in rows[2:]])


def _cells(row: str) -> list[str]:
    return [text.strip().replace("\\|", "|") for text in re.split(r"(?<!\\)\|", row.strip()[1:-1])]


def _pieces(text: str) -> list[Piece]:
    """Return text with its bold and underlined pieces."""
    marked = re.findall(r"\*\*(.+?)\*\*|<u>(.+?)</u>|`([^`]+)`|(.[^*<`]*)", text, re.DOTALL)
    return [
        Piece(bold or second or code or plain, kind="strong" if bold else "underlined" if second else "")
        for bold, second, code, plain in marked
    ]
