"""What a Markdown page holds of figures: tables, sentences and printed lines, each with its mark and its commands."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from normxlogit.errors import DataError, InputError

__all__ = [
    "KINDS",
    "Block",
    "Cells",
    "Mark",
    "blocks_of",
    "commands_in",
    "figures_in",
    "is_command",
    "is_figure",
    "pages_of",
    "tables_in",
    "without_code",
]

KINDS = ("figures", "published", "timing", "generated", "unchecked")
"""Compared with what commands print; the paper's or another's; seconds and costs; written by a script; without one."""

PROGRAMS = ("normxlogit", "python -m paper", "python -m benchmarks")

KEYS = ("tolerance", "slow", "needs", "file", "under", "timing", "anywhere", "where", "except", "with")

# A number in a sentence counts as a figure from two decimals on; versions of software do not.
_FIGURE = re.compile(r"(?<![\w.])[-+−]?\d+\.\d{2,}(?![\d.]*\.\d)")
_NUMBER_CELL = re.compile(r"(?:[-+−±]?\d[\d,.]*(?:e[-+]?\d+)?[%x]?|to|and|of|[\s()/,<>≤≥±-])+")
_VERSION = re.compile(r"\b(?:Python|transformers|torch|Captum)\s\d+\.\d+(?:,?\s(?:to|and)\s\d+\.\d+)?")
_NO_TEXT = re.compile(r"`[^`]*`|!\[[^\]]*\]\([^)]*\)|(?<=\])\([^)]*\)")
_MARK = re.compile(rf"<!--\s*({'|'.join(KINDS)})\b:?(.*?)-->", re.DOTALL)

_PROSE = ("paragraph_open", "bullet_list_open", "ordered_list_open", "blockquote_open", "heading_open")
_CODE = ("python", "mermaid", "yaml", "toml", "bash")
"""What is read, not printed; figures in comments of Python are left to the tests that run it."""

Cells = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Mark:
    """The comment before a table, a list, a paragraph or printed lines.

    Attributes:
        kind: One of `KINDS`.
        text: What stands first in it: commands, pages, or a reason.
        keys: The rest, `key value` between semicolons.
    """

    kind: str
    text: str
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """A part of a page that may hold figures.

    Attributes:
        page: The file.
        line: Its first line, counted from 1.
        shape: "table", "prose" (a paragraph or a list) or "output" (printed lines).
        lines: Its text; of a table nothing.
        mark: The comment before it, if there is one.
        commands: The commands of the last console block before it, or up to it where it is one.
        cells: The head and the rows of a table.
    """

    page: Path
    line: int
    shape: Literal["table", "prose", "output"]
    lines: tuple[str, ...] = ()
    mark: Mark | None = None
    commands: tuple[tuple[str, ...], ...] = ()
    cells: Cells = ()

    @property
    def figures(self) -> int:
        """How many cells behind the rows' names, or numbers in sentences and printed lines, are figures."""
        if self.shape == "table":
            return sum(is_figure(cell) for row in self.cells[1:] for cell in row[1:])
        return len(figures_in("\n".join(self.lines)))

    @property
    def printed(self) -> bool:
        """Whether these lines stand in a console block, below the command that prints them."""
        return self.shape == "output" and bool(self.commands) and self.mark is None


def pages_of(places: Sequence[Path]) -> list[Path]:
    """Return the Markdown files of folders and files.

    Raises:
        DataError: If one is not there.
    """
    files: list[Path] = []
    for place in places:
        if not place.exists():
            raise DataError(f"no file or folder {place}")
        files += sorted(place.rglob("*.md")) if place.is_dir() else [place]
    return files


def is_figure(cell: str) -> bool:
    """Return whether a table's cell is a number, or holds a measured one."""
    bare = re.sub(r"\*\*|</?u>", "", without_code(cell)).strip()
    number = any(c.isdigit() for c in bare) and _NUMBER_CELL.fullmatch(bare) is not None
    return number or bool(figures_in(cell))


def figures_in(text: str) -> list[str]:
    """Return the figures of a sentence, those in code, links and versions left out."""
    return _FIGURE.findall(without_code(text))


def without_code(text: str) -> str:
    """Return text with spaces for code spans, pictures, the addresses of links, and versions of software."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return _VERSION.sub(blank, _NO_TEXT.sub(blank, text))


def blocks_of(page: Path) -> list[Block]:
    """Read a page.

    Raises:
        InputError: If a mark is not understood.
    """
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    blocks: list[Block] = []
    mark: Mark | None = None
    commands: tuple[tuple[str, ...], ...] = ()
    variables: dict[str, str] = {}
    below = False  # whether a block of printed lines stands right below its commands
    tokens = _parsed(text)
    for place, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        first, end = token.map
        if token.type == "html_block":
            filled = _filled(token.content, variables)
            mark = _mark_of(filled, f"{page}:{first + 1}") or mark
            shown = re.sub(r"<!--.*?-->", lambda m: re.sub(r"[^\n]", " ", m[0]), token.content, flags=re.DOTALL)
            if not figures_in(shown):
                continue
            blocks.append(Block(page, first + 1, "prose", tuple(shown.splitlines()), mark, commands))
        if token.type == "fence" and token.info == "console":
            commands = ()
            for number, words, printed in _console(token.content, variables):
                commands += (words,) if words else ()
                if printed:
                    blocks.append(Block(page, first + 2 + number, "output", printed, mark, commands))
        elif token.type == "code_block" or (token.type == "fence" and token.info not in _CODE):
            printed_by = commands if below or mark is not None else ()
            start = first + 1 + (token.type == "fence")
            blocks.append(Block(page, start, "output", tuple(token.content.splitlines()), mark, printed_by))
        elif token.type == "table_open":
            blocks.append(Block(page, first + 1, "table", (), mark, commands, _cells(tokens[place:])))
        elif token.type in _PROSE:
            blocks.append(Block(page, first + 1, "prose", tuple(lines[first:end]), mark, commands))
        below = token.type == "fence" and token.info == "console"
        mark = None
    return blocks


def tables_in(text: str) -> list[tuple[str, Cells]]:
    """Return the tables of a text, each with the headings and the line before it."""
    tables: list[tuple[str, Cells]] = []
    heading = line = ""
    tokens = _parsed(text)
    for place, token in enumerate(tokens):
        if token.type == "inline" and not token.level - 1:
            if tokens[place - 1].type == "heading_open":
                heading, line = token.content, ""
            else:
                line = token.content
        if token.type == "table_open":
            tables.append((f"{heading}\n{line}", _cells(tokens[place:])))
    return tables


def _parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def _mark_of(comment: str, where: str) -> Mark | None:
    """Read the mark of a comment, None for any other comment."""
    match = _MARK.search(comment)
    if match is None:
        return None
    text, *rest = [" ".join(part.split()) for part in match[2].split(";")]
    keys = {part.partition(" ")[0]: part.partition(" ")[2] for part in rest if part}
    unknown = [key for key in keys if key not in KEYS]
    if unknown:
        raise InputError(f"{where}: a mark has no {unknown[0]!r}; it takes {', '.join(KEYS)}")
    if not text and match[1] not in ("published", "timing"):
        raise InputError(f"{where}: {match[1]} takes a command, a page or a reason after the colon")
    return Mark(match[1], text, keys)


def _cells(tokens: Sequence[Token]) -> Cells:
    rows: list[list[str]] = []
    for place, token in enumerate(tokens):
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append(tokens[place + 1].content.strip())
    return tuple(map(tuple, rows))


def _console(code: str, variables: dict[str, str]) -> Iterator[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """Yield the place, words and printed lines of each command of a console block; variables are noted and filled in.

    The place is that of the first printed line, or of the command where nothing is printed.
    """
    lines = code.splitlines()
    place = 0
    while place < len(lines):
        command, start = "", place
        if lines[place].startswith("$ "):
            command = lines[place][2:]
            while command.endswith("\\") and place + 1 < len(lines):
                place += 1
                command = command[:-1].rstrip() + " " + lines[place].strip()
            place += 1
        first = place
        while place < len(lines) and not lines[place].startswith("$ "):
            place += 1
        printed = tuple(lines[first:place])
        yield (first if printed else start), _words(command, variables), printed


def _words(command: str, variables: dict[str, str]) -> tuple[str, ...]:
    if (assigned := re.match(r"(\w+)=(.*)", command)) and not is_command(command):
        if not assigned[2].startswith("$("):
            variables[assigned[1]] = " ".join(shlex.split(assigned[2]))
        return ()
    words = shlex.split(_filled(command, variables), comments=True)
    for place, word in enumerate(words):
        if word in ("|", "&&"):
            words = words[:place]
            break
    writes = words[:1] == ["echo"] and words[-2:-1] == [">"]
    return tuple(words) if writes or is_command(" ".join(words)) else ()


def _filled(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda m: variables.get(m[1], m[0]), text)


def commands_in(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the commands of a mark, several with && between them.

    Raises:
        InputError: If one is not a command of `PROGRAMS`.
    """
    parts = text.split("&&")
    for part in parts:
        if not is_command(part.strip()):
            raise InputError(
                f"a mark names commands of {' or '.join(PROGRAMS)}, the block above, or pages, not {part!r}"
            )
    return tuple(tuple(shlex.split(part)) for part in parts)


def is_command(text: str) -> bool:
    """Return whether a text is a command of one of the programs whose figures are checked."""
    return text.startswith(tuple(f"{program} " for program in PROGRAMS))
