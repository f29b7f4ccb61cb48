"""What a page says beside what was printed: tables cell by cell, lines by their words, sentences by their figures."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, DivisionByZero, InvalidOperation

from .marks import Block, figures_in, is_figure, without_code
from .printed import Printed

__all__ = ["Difference", "compare", "numbers_in"]

_NUMBER = re.compile(r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
_EMPHASIS = re.compile(r"\*\*|</?u>")


@dataclass(frozen=True)
class Difference:
    """A figure that is not what was printed.

    Attributes:
        line: The page's line, counted from 1.
        name: Its row and column, or the words around it.
        said: What the page says.
        printed: What was printed, or why there is nothing.
        tolerance: How far the two may be apart.
    """

    line: int
    name: str
    said: str
    printed: str
    tolerance: str


def compare(block: Block, printed: Printed, *, exact: bool = False) -> list[Difference]:
    """Compare a block with what was printed.

    Args:
        block: A marked block.
        printed: What its mark names.
        exact: Whether what was printed must round to what the page says; else the last digit may be one off.
    """
    keys = {} if block.mark is None else block.mark.keys
    rule = _Rule(keys.get("tolerance"), exact)
    if block.shape == "table" and "anywhere" not in keys and not exact:
        return list(_by_names(block, printed, rule, _listed(keys.get("timing", ""))))
    if block.shape == "output" and not exact:
        return list(_by_lines(block, printed, rule))
    return list(_by_value(block, printed, rule))


def numbers_in(text: str) -> list[str]:
    """Return the numbers of a text as they are written."""
    return [number.replace("−", "-").replace(",", "").lstrip("+") for number in _NUMBER.findall(text)]


@dataclass(frozen=True)
class _Rule:
    """How far figures may be apart: a number, a percentage, or one in the last digit that the page shows."""

    tolerance: str | None
    exact: bool

    @property
    def text(self) -> str:
        return self.tolerance or ("as rounded" if self.exact else "last digit")

    def same(self, page_figure: str, printed: str) -> bool:
        """Compare two numbers; whole numbers must be equal."""
        ours, theirs = Decimal(page_figure), Decimal(printed)
        exponent = ours.as_tuple().exponent
        if "e" not in page_figure and "." not in page_figure:
            return ours == theirs
        unit = Decimal(1).scaleb(int(exponent))
        if self.tolerance is None:
            return abs(ours - theirs) <= (unit / 2 if self.exact else unit)
        if self.tolerance.endswith("%"):
            return abs(ours - theirs) <= abs(ours) * Decimal(self.tolerance[:-1]) / 100
        return abs(ours - theirs) <= Decimal(self.tolerance)

    def same_text(self, page_text: str, printed: str) -> bool:
        """Compare two texts: their words and emphasis must be the same, their numbers within the tolerance."""
        if _words(page_text) != _words(printed):
            return False
        pairs = zip(numbers_in(page_text), numbers_in(printed), strict=True)
        return all(self.same(ours, theirs) for ours, theirs in pairs)


def _words(text: str) -> str:
    """Return a text with a sign in place of each number, however wide its columns are."""
    return re.sub(r"\s+", " ", _NUMBER.sub("#", text)).strip()


def _plain(cell: str) -> str:
    """Return the name in a cell, without code marks, emphasis and links."""
    return re.sub(r"\s+", " ", re.sub(r"\]\([^)]*\)|[`*\[]|</?u>", "", cell)).strip()


def _listed(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}


def _columns(head: Sequence[str]) -> list[tuple[str, int]]:
    """Name the columns of a table, with a count for those of one name."""
    names = [_plain(cell) for cell in head]
    return [(name, names[:place].count(name)) for place, name in enumerate(names)]


def _by_names(block: Block, printed: Printed, rule: _Rule, timing: set[str]) -> Iterator[Difference]:
    """Compare a table by the names of its rows and columns.

    Emphasis is compared where the page has any, and no column is left out that it may rest on.
    """
    head, *rows = block.cells
    columns_here = _columns(head)
    keys = 1  # the first columns, without figures, name the row
    while keys < len(head) and not any(is_figure(row[keys]) for row in rows):
        keys += 1
    under = block.mark.keys.get("under", "") if block.mark else ""
    tables = [
        (_columns(cells[0]), cells[1:])
        for heading, cells in printed.tables
        if under in heading and all(c in _columns(cells[0]) for c in columns_here if c[0] not in timing)
    ]
    if not tables:
        names = ", ".join(name for name, _ in columns_here)
        yield Difference(block.line, names, "", f"no table with these columns{under and f' under {under!r}'}", "")
        return
    compared = [k for k in range(keys, len(head)) if columns_here[k][0] not in timing]
    for place, row in enumerate(rows):
        line, name = block.line + 2 + place, " ".join(_plain(cell) for cell in row[:keys] if cell)
        matches = {
            tuple(theirs[columns.index(columns_here[k])] for k in compared if row[k])
            for columns, body in tables
            for theirs in body
            if all(_plain(theirs[columns.index(columns_here[k])]) == _plain(row[k]) for k in range(keys))
        }
        if len(matches) != 1:
            why = "several rows of this name: say under which heading" if matches else "no such row"
            yield Difference(line, name, "", why, "")
            continue
        for k, cell in zip([k for k in compared if row[k]], *matches, strict=True):
            bare = timing or not _EMPHASIS.search(row[k])
            page_cell, other = (_EMPHASIS.sub("", text) if bare else text for text in (row[k], cell))
            if not rule.same_text(page_cell, other):
                yield Difference(line, f"{name}, {columns_here[k][0]}", row[k], cell or "nothing", rule.text)


def _by_lines(block: Block, printed: Printed, rule: _Rule) -> Iterator[Difference]:
    """Compare printed lines: one of the same words must have been printed, with the same numbers."""
    lines = printed.text.splitlines()
    for place, page_line in enumerate(block.lines):
        if not page_line.strip():
            continue
        alike = [line for line in lines if _words(line) == _words(page_line)]
        if not any(rule.same_text(page_line, line) for line in alike):
            nearest = alike[0] if alike else "no line of these words"
            yield Difference(block.line + place, _words(page_line)[:40], page_line.strip(), nearest.strip(), rule.text)


def _by_value(block: Block, printed: Printed, rule: _Rule) -> Iterator[Difference]:
    """Compare figures one by one: each must be among the numbers printed, or be worked out from such."""
    keys = block.mark.keys if block.mark else {}
    worked_out = dict(_equations(keys.get("where", "")))
    left_out, pool = set(keys.get("except", "").replace(",", " ").split()), set(numbers_in(printed.text))
    timing = _listed(keys.get("timing", ""))

    def there(page_figure: str) -> bool:
        return any(rule.same(page_figure, number) for number in pool)

    for line, name, figure in _figures_of(block, timing):
        if figure in left_out:
            continue
        if figure in worked_out:
            first, sign, second = worked_out[figure]
            try:
                a, b = Decimal(first), Decimal(second)
                result = a / b if sign == "/" else a - b
            except (InvalidOperation, DivisionByZero):
                result = Decimal("NaN")
            unit = Decimal(1).scaleb(int(Decimal(figure).as_tuple().exponent))
            if there(first) and there(second) and abs(result - Decimal(figure)) <= unit / 2:
                continue
            yield Difference(line, name, f"{figure} = {first}{sign}{second}", f"{result:.4f}", "as rounded")
        elif not there(figure):
            yield Difference(line, name, figure, "no such figure", rule.text)


def _equations(text: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Read `1.50 = 0.640/0.427, 0.02 = 0.71-0.69`."""
    for part in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(r"(\S+) = (\S+?)\s*([/-])\s*(\S+)", part)
        if match is not None:
            yield match[1], (match[2], match[3], match[4])


def _figures_of(block: Block, timing: set[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the words around and the number of each figure."""
    if block.shape == "table":
        head, *rows = block.cells
        for place, row in enumerate(rows):
            for name, cell in zip(map(_plain, head), row, strict=True):
                if name not in timing and is_figure(cell):
                    for figure in figures_in(cell):
                        yield block.line + 2 + place, f"{_plain(row[0])}, {name}", _number(figure)
        return
    for place, text in enumerate(without_code("\n".join(block.lines)).split("\n")):
        for figure in figures_in(text):
            yield block.line + place, _plain(block.lines[place])[:60], _number(figure)


def _number(text: str) -> str:
    return text.replace("−", "-").lstrip("+")
