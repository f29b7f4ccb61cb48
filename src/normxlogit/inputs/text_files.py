"""How files of text are written: their encoding, and what stands between the values of a table."""

import csv
import io
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError

UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16."""

OTHER_DELIMITERS = (";", "\t", "|")
"""What stands between values where commas do not: Excel writes semicolons where numbers have decimal commas."""

SAMPLE = 1 << 16
"""Characters at the beginning of a table by which its delimiter is told."""


class Dialect(NamedTuple):
    """How a table is written.

    Attributes:
        encoding: Its encoding, as Python names it.
        delimiter: The separator of values.
    """

    encoding: str
    delimiter: str


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text by its first bytes: UTF-16, which has a mark, or UTF-8 with a mark or without."""
    return "utf-16" if start.startswith(UTF16) else "utf-8-sig"


def decoded(content: bytes, name: str) -> str:
    """Return bytes of UTF-8, or of UTF-16 with its mark, as text, with line feeds as line ends.

    No other encoding is guessed: of short texts a guess is often wrong, and would change what they say.

    Args:
        content: The bytes.
        name: What an error calls them, such as the path of a file.

    Raises:
        DataError: If they are in another encoding.
    """
    try:
        text = content.decode(encoding_of(content))
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text") from None
    if "\0" in text:  # such as UTF-16 without its mark
        raise DataError(f"{name} is not UTF-8 text")
    return text.replace("\r\n", "\n")


def is_existing_path(text: str) -> bool:
    """Return whether a text is the path of something that exists."""
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # longer than a name can be, or with a zero byte
        return False


def is_file_name(text: str) -> bool:
    """Return whether a text is the name of an existing file alone."""
    return len(text.split()) == 1 and is_existing_path(text) and Path(text).is_file()


def dialect_of(file: Any, kind: str) -> Dialect:
    """Return how a table is written, by its beginning, and set the file of bytes back to its start.

    A table of the kind "tsv" has tabs between its values; of any other the delimiter is found.
    """
    encoding = encoding_of(file.read(len(UTF16[0])))
    file.seek(0)
    if kind == "tsv":
        return Dialect(encoding, "\t")
    lines = io.TextIOWrapper(file, encoding, "surrogateescape", newline="")
    sample = lines.read(SAMPLE)
    lines.detach()
    file.seek(0)
    return Dialect(encoding, _delimiter_of(sample))


def _delimiter_of(sample: str) -> str:
    """Return the delimiter of a table: a comma wherever the line with the names has one.

    Where it has none, the table has one column, or another delimiter. That of a table with one column may be in its
    texts, but does not cut as many of them into as many parts as the names as there are texts without a comma.
    """
    columns, most = _shape(sample, ",")
    best = ","
    for delimiter in OTHER_DELIMITERS if columns == 1 else ():
        columns, rows = _shape(sample, delimiter)
        if columns > 1 and (rows > most or (rows == most and best == ",")):
            best, most = delimiter, rows
    return best


def _shape(sample: str, delimiter: str) -> tuple[int, int]:
    """Return how many columns the names of a table are, and how many rows of a sample have as many."""
    try:
        rows = list(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter))
    except csv.Error:  # the reader of the table raises the error
        return 0, 0
    if len(sample) == SAMPLE:
        rows.pop()  # the sample may end in it
    columns = len(rows[0]) if rows else 0
    return columns, sum(len(row) == columns for row in islice(rows, 1, None))
