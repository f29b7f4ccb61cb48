"""Documents from files: text, Markdown, the visible text of HTML, and the pages of PDF."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from io import BytesIO
from os import PathLike
from pathlib import Path

from ...errors import DataError
from ..text_files import encoding_of

HTML_SUFFIXES = (".html", ".htm", ".xhtml")
SUFFIXES = (".txt", ".md", ".markdown", *HTML_SUFFIXES, ".pdf")
"""Files of a folder that are read as documents."""

HIDDEN = frozenset({"title", "script", "style", "template", "noscript", "svg", "math", "select", "textarea"})
"""Elements whose content a browser does not show as text."""

VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})
"""Elements without an end tag."""

INLINE = frozenset(
    {
        *("a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i", "img", "kbd", "label"),
        *("mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
    }
)
"""Elements that do not begin a new line."""


def read_file(path: str | PathLike[str], name: str | None = None) -> dict[str, str]:
    """Return a document's text by name.

    Args:
        path: The file. PDF needs the extra `documents`.
        name: The name of the document; its file name by default.

    Returns:
        One text, or one for each page of a PDF, called "report.pdf, page 3".
    """
    path = Path(path)
    name = path.name if name is None else name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if path.suffix.lower() == ".pdf":
        return _pdf_pages(content, path, name)
    if path.suffix.lower() in HTML_SUFFIXES:
        return {name: visible_text(_decoded_html(content, str(path)))}
    return {name: decoded(content, str(path))}


def is_existing_path(text: str) -> bool:
    """Return whether a text is the path of something that exists."""
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # longer than a name can be, or with a zero byte
        return False


def is_file_name(text: str) -> bool:
    """Return whether a text is the name of an existing file alone."""
    return len(text.split()) == 1 and is_existing_path(text) and Path(text).is_file()


def files_in(folder: Path) -> list[Path]:
    """Return the documents in a folder and its subfolders, without hidden files and folders."""
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    if not files:
        raise DataError(f"{folder}: no {', '.join(SUFFIXES)} file in this folder")
    return files


def names_of_files(files: Sequence[Path]) -> list[str]:
    """Return the name of each file; files of the same name get as much of their paths as makes them unique."""
    names = []
    for file in files:
        parents = [str(namesake.absolute().parent) for namesake in files if namesake.name == file.name]
        names.append(file.absolute().relative_to(os.path.commonpath(parents)).as_posix())
    return names


def decoded(content: bytes, name: str) -> str:
    """Return bytes of UTF-8, or of UTF-16 with its mark, as text, with line feeds as line ends."""
    try:
        text = content.decode(encoding_of(content))
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text") from None
    if "\0" in text:  # such as UTF-16 without its mark
        raise DataError(f"{name} is not UTF-8 text")
    return text.replace("\r\n", "\n")


def visible_text(page: str) -> str:
    """Return the text of an HTML page that a browser shows, one line for each block element."""
    parser = _VisibleText()
    parser.feed(page)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _VisibleText(HTMLParser):
    """Collects the text outside hidden elements."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.open_elements: list[tuple[str, bool]] = []  # element and whether it is hidden, from the outermost on
        self.open_counts: Counter[str] = Counter()  # of open elements

    @property
    def hidden(self) -> bool:
        return bool(self.open_elements) and self.open_elements[-1][1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open_counts[tag] += 1
            self.open_elements.append((tag, self.hidden or tag in HIDDEN or "hidden" in dict(attrs)))
        if not self.hidden and tag not in INLINE:
            self.pieces.append("\n\n" if tag in ("p", "h1", "h2", "h3", "h4", "h5", "h6") else "\n")

    def handle_endtag(self, tag: str) -> None:
        closed = ""
        while self.open_counts[tag] and closed != tag:  # also closes elements that were left open inside it
            closed, _ = self.open_elements.pop()
            self.open_counts[closed] -= 1
        if not self.hidden and tag not in INLINE:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.pieces.append(re.sub(r"\s+", " ", data))


def _decoded_html(content: bytes, name: str) -> str:
    """Return an HTML page as text, decoded by the charset that it declares."""
    charset = re.search(rb"<meta[^>]+charset=[\"']?([\w-]+)", content[:2048], re.IGNORECASE)
    encoding = charset.group(1).decode() if charset else encoding_of(content)
    try:
        try:
            return content.decode(encoding).lstrip("\ufeff")
        except LookupError:  # a name that nothing is known by
            return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{name} is not text in the encoding that it names, or UTF-8") from None


def _pdf_pages(content: bytes, path: Path, name: str) -> dict[str, str]:
    """Return the text of each page of a PDF file."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise DataError(f"reading {path.name} needs pypdf: pip install 'normxlogit[documents]'") from None
    try:
        pages = PdfReader(BytesIO(content)).pages
        texts = {f"{name}, page {number}": page.extract_text() for number, page in enumerate(pages, start=1)}
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise DataError(f"cannot read {path}: {error or type(error).__name__}") from None  # a damaged or locked file
    if not any(text.strip() for text in texts.values()):
        raise DataError(f"{path} has no text: its pages may be pictures, which need text recognition first")
    return texts
