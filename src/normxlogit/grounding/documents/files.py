"""Files of documents: which kinds are read, and how their text is taken out of them."""

import re
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from os import PathLike
from pathlib import Path

from ...errors import DataError
from ...inputs.texts import decoded, encoding_of, visible_files
from ...results.storage.files import content_of

Texts = dict[str, str]
"""Texts by their names, or by what tells them apart."""

HIDDEN = ("head", "script", "style", "template", "noscript", "svg", "math", "select", "textarea")
"""Elements whose content a browser does not show as text."""

INLINE = {
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i", "img", "kbd", "label", "mark",
    "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
}  # fmt: skip
"""Elements that do not begin a new line."""

PARAGRAPHS = ("p", "h1", "h2", "h3", "h4", "h5", "h6")
"""Elements with an empty line before them."""


def read_file(path: str | PathLike[str]) -> Texts:
    """Return the text of a file as {"": text}, or those of its parts: {", page 3": text}."""
    path = Path(path)
    return READERS.get(path.suffix.lower(), _read_text)(content_of(path), str(path))


def files_in(folder: Path) -> list[Path]:
    """Return the documents in a folder and its subfolders, without hidden files and folders."""
    if not (files := visible_files(folder, READERS)):
        raise DataError(f"{folder}: no {', '.join(READERS)} file in this folder")
    return files


def _read_text(content: bytes, path: str) -> Texts:
    return {"": decoded(content, path)}


def _read_html(content: bytes, path: str) -> Texts:
    """Return the text of an HTML page that a browser shows, one line for each block element."""
    try:
        from bs4 import BeautifulSoup
        from bs4.dammit import EncodingDetector
    except ImportError:
        raise DataError(f"reading {path} needs beautifulsoup4: pip install 'normxlogit[documents]'") from None
    declared = EncodingDetector.find_declared_encoding(content, is_html=True) or "utf-8"
    # What a page says of its encoding may be wrong; `encoding_of` says UTF-8, or UTF-16 by its mark.
    for encoding in (declared, encoding_of(content)):
        with suppress(LookupError, UnicodeError):  # no such encoding, or another one
            page = BeautifulSoup(content.decode(encoding).lstrip("\ufeff"), "html.parser")
            break
    else:
        raise DataError(f"{path} is not text in the encoding that it names, or UTF-8")
    for element in [*page(HIDDEN), *page(hidden=True)]:
        element.extract()
    # NUL, which no text has, stands for a line end: those of the source are spaces to a browser.
    for element in page(lambda tag: tag.name not in INLINE):
        element.insert_before("\0\0" if element.name in PARAGRAPHS else "\0")
        element.insert_after("\0")
    lines = (" ".join(line.split()) for line in page.get_text().split("\0"))
    return {"": re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()}


def _read_pdf(content: bytes, path: str) -> Texts:
    """Return the text of each page of a PDF file."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise DataError(f"reading {path} needs pypdf: pip install 'normxlogit[documents]'") from None
    try:
        pages = PdfReader(BytesIO(content)).pages
        texts = {f", page {number}": page.extract_text() for number, page in enumerate(pages, start=1)}
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise DataError(f"cannot read {path}: {error or type(error).__name__}") from None  # a damaged or locked file
    if not any(text.strip() for text in texts.values()):
        raise DataError(f"{path} has no text: its pages may be pictures, which need text recognition first")
    return texts


READERS: dict[str, Callable[[bytes, str], Texts]] = {
    **dict.fromkeys((".txt", ".md", ".markdown"), _read_text),
    **dict.fromkeys((".html", ".htm", ".xhtml"), _read_html),
    ".pdf": _read_pdf,
}
"""Readers of files by suffix; add one for another kind of file.

A reader takes the content of a file and its path, for errors, and returns its text by the part of its name that tells
several texts of it apart, {"": text} of a single one.
"""
