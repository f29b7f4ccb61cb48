"""How files of text are written: their encoding, and what stands between the values of a table."""

import io
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError

UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16."""

OTHER_DELIMITERS = (";", "\t", "|")
"""What stands between values where commas do not: Excel writes semicolons where numbers have decimal commas."""

SAMPLE = 1 << 16
"""Most characters of the line with the names by which the delimiter of a table is told."""


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
    """Return how a table is written, by the line with its names, and set the file of bytes back to its start.

    A table of the kind "tsv" has tabs between its values; any other has commas, unless its names have none and are
    separated by another delimiter.
    """
    encoding = encoding_of(file.read(len(UTF16[0])))
    file.seek(0)
    if kind == "tsv":
        return Dialect(encoding, "\t")
    lines = io.TextIOWrapper(file, encoding, "surrogateescape", newline="")
    names = lines.readline(SAMPLE)
    lines.detach()
    file.seek(0)
    return Dialect(encoding, next((mark for mark in (",", *OTHER_DELIMITERS) if mark in names), ","))
