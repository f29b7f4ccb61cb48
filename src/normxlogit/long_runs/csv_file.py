"""CSV and TSV files, of which a row that cannot be read keeps its place."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from ..errors import DataError
from .lines import NO_TEXT, encoding_of_file
from .tables import BLOCK, RowBlock

LONGEST_CELL = 8 << 20
"""Most characters of a cell."""

END_MARK = "\x1elast"
"""A line that is appended to a CSV file. Where it does not come back as a row of its own, a quote was left open."""

OPEN_QUOTE = "a quote is not closed: the rows after it were read as one, or not at all"

DELIMITERS = (",", ";", "\t", "|")
"""What stands between values: Excel writes semicolons where numbers have decimal commas."""

LONGEST_HEADER = 1 << 16
"""Most characters that are read of the line with the names, to tell the delimiter of a table."""


class CsvFile:
    """A CSV or TSV file, which is read once.

    Args:
        file: The file of bytes.
        kind: "csv" or "tsv".
        fraction: Returns the share of the file that is read.

    Attributes:
        names: The names of the columns, which stand in the first line.
    """

    def __init__(self, file: Any, kind: str, fraction: Callable[[], float]) -> None:
        self._fraction = fraction
        # A cell that is not UTF-8 is a problem of its row, not of the file: it holds surrogates. `csv` reads line ends.
        self._lines = io.TextIOWrapper(file, encoding_of_file(file), "surrogateescape", newline="")
        self._delimiter = "\t" if kind == "tsv" else self._most_dividing_delimiter()
        # A mark behind the last line: it is a row of its own, or in the last cell where a quote was never closed.
        self._reader = csv.reader(chain(self._lines, [END_MARK]), delimiter=self._delimiter)
        (names,) = _next_rows(self._reader, 1)  # there is at least the mark
        self.names = names or [""]  # of an empty first line one column without a name
        if self.names == [END_MARK]:
            raise ValueError("the file is empty")
        if "\0" in self.names[0]:
            raise ValueError(NO_TEXT)
        if self.names[-1].endswith(END_MARK):  # a quote that is opened in the first line takes all up to the mark
            raise DataError(OPEN_QUOTE)

    def _most_dividing_delimiter(self) -> str:
        """Return the delimiter that divides the line with the names into most cells."""
        line = self._lines.readline(LONGEST_HEADER)
        self._lines.seek(0)

        def cell_count(delimiter: str) -> int:
            """Return into how many cells a delimiter divides the line."""
            (names,) = _next_rows(csv.reader([line], delimiter=delimiter), 1)
            return len(names)

        return max(DELIMITERS, key=cell_count)  # of several the first; of a single column the comma

    def blocks(self, columns: Sequence[str]) -> Iterator[RowBlock]:
        """Yield some columns of all rows."""
        has_ended = False
        while rows := _next_rows(self._reader, BLOCK):
            if self._delimiter == "\t":
                _check_cells(self.names, rows)
            has_ended = rows[-1] == [END_MARK]
            yield self._block(rows[:-1] if has_ended else rows, columns)
        if not has_ended:
            raise DataError(OPEN_QUOTE)
        self._lines.detach()  # the wrapper would close the file, which who opened it closes

    def _block(self, rows: list[list[str]], columns: Sequence[str]) -> RowBlock:
        """Return some columns of rows.

        An empty line is a row of empty cells. A row with another number of cells than columns has a problem, and its
        cells are None.

        Args:
            rows: The cells of each row, for all columns of the file.
            columns: The names of the columns to return.
        """
        count = len(self.names)
        problems: list[str | None] = []
        whole_rows: list[Any] = []  # each with `count` cells
        for row in rows:
            if len(row) in (0, count):
                problems.append(None)
                whole_rows.append(row or [""] * count)
            else:
                problems.append(f"the row has {len(row)} columns instead of {count}")
                whole_rows.append([None] * count)
        positions = {name: self.names.index(name) for name in columns}
        columns_of_block = {name: [row[position] for row in whole_rows] for name, position in positions.items()}
        return RowBlock(columns_of_block, problems, self._fraction())


def _next_rows(reader: Iterator[list[str]], count: int) -> list[list[str]]:
    """Return up to `count` further rows of a reader of `csv`; cells may have up to `LONGEST_CELL` characters."""
    limit_before = csv.field_size_limit(LONGEST_CELL)  # of the whole process, so it is set back
    try:
        return list(islice(reader, count))
    except csv.Error as error:
        raise ValueError(error) from None
    finally:
        csv.field_size_limit(limit_before)


def _check_cells(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Refuse a tab-separated table with a tab and a line end in a cell.

    Such tables are mostly written without quoting, and a quote in a text then joins rows up to the next quote.
    """
    # A row may have more or fewer cells than there are names.
    for name, cell in chain.from_iterable(zip(names, row, strict=False) for row in rows):
        if "\t" in cell and "\n" in cell:
            raise DataError(
                f"a cell of the column {name!r} reaches over several rows, from {cell.splitlines()[0][:40]!r} on, as "
                "quotes in texts do where a file is written without quoting; write it as JSONL, or with the quotes "
                "doubled"
            )
