"""Documents with names: texts, rows, retrievers' objects, and files of text, Markdown, HTML and PDF."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import DataError, InputError
from ...inputs.text_files import encoding_of
from ...inputs.texts import is_missing
from ...media.inputs.items import PICTURE_SUFFIXES, is_opened_picture, medium_type
from ...media.inputs.pictures import Picture, read_picture

TEXT_KEYS = ("page_content", "text", "content", "passage", "document", "body", "chunk")
"""Keys of a document's text: of LangChain, LlamaIndex and Haystack, and common columns."""

METADATA_KEYS = ("metadata", "meta", "payload", "_source")
"""Keys of metadata; Pinecone, Qdrant (`payload`) and Elasticsearch keep the text in them too."""

LIST_KEYS = ("documents", "matches", "points", "source_nodes", "hits", "context", "source_documents")
"""Keys of a search result's documents: Haystack and Chroma, Pinecone, Qdrant, LlamaIndex, Elasticsearch, LangChain."""

ID_KEYS = ("id", "_id", "doc_id", "_index")
"""Keys of strings that are not the text."""

NAME_KEYS = ("source", "file_name", "filename", "file_path", "path", "url", "title", "name")
"""Keys of metadata for the name of a text's source."""

PAGE_KEYS = ("page_label", "page", "page_number")


def documents_by_name(documents: Any) -> dict[str, str]:
    """Return the text of each document by its name, without empty documents and leading white space.

    Args:
        documents: A text, a file (`pathlib.Path`: .txt, .md, .html or .pdf) or a folder of them, texts by name, or an
            iterable of texts, files, rows and objects: LangChain's (`page_content`, `metadata`), LlamaIndex's
            (`get_content()` or `text`, `metadata`), Haystack's (`content`, `meta`), rows of data sets and frames, also
            with a relevance score as a tuple (document, score).

    Returns:
        Texts by name. A name is that of the mapping, of the metadata ("report.pdf, page 3") or of the file, with as
        much of its path as tells files apart, or "document 2"; texts of one name are counted ("report.pdf (2)").

    Raises:
        InputError: If there is no document, one has no text, or two have one name in a mapping.
        DataError: If a file cannot be read.
    """
    documents = _search_hits(documents)
    if isinstance(documents, Mapping) and not _is_document(documents):
        if len({str(name) for name in documents}) < len(documents):
            raise InputError("two documents have the same name; give them different ones")
        texts = {str(name): _text_of(document, repr(name)) for name, document in documents.items()}
    else:
        texts = {}
        items = [item for document in _each_document(documents) for item in _files_of(_without_score(document))]
        names = iter(names_of_files([Path(document) for document in items if isinstance(document, PathLike)]))
        for number, document in enumerate(items, start=1):
            for name, text in _named_texts(document, number, names):
                texts[_unique_name(name, texts)] = text
    filled = {name: text.lstrip() for name, text in texts.items() if text.strip()}
    if not filled:
        raise InputError("there is no document with a text")
    return filled


def separate_pictures(documents: Any) -> tuple[dict[str, Picture], Any]:
    """Return the pictures among documents by name, and the other documents; None if there are no others.

    Args:
        documents: As for `documents_by_name`, in a list or by name also with pictures: of Pillow, arrays, or files.

    Raises:
        InputError: If a picture cannot be read.
    """
    documents = _search_hits(documents)
    if _is_picture(documents):
        documents = [documents]
    if isinstance(documents, Iterator):
        documents = list(documents)
    if isinstance(documents, Mapping) and not _is_document(documents):
        pictures = {name: document for name, document in documents.items() if _is_picture(document)}
        others: Any = {name: document for name, document in documents.items() if name not in pictures}
        named = {str(name): replace(read_picture(picture), name=str(name)) for name, picture in pictures.items()}
    elif isinstance(documents, list | tuple):
        items = [_without_score(document) for document in documents]
        picture_items = [item for item in items if _is_picture(item)]
        others = [document for document, item in zip(documents, items, strict=True) if not _is_picture(item)]
        names = iter(names_of_files([Path(item) for item in picture_items if isinstance(item, PathLike)]))
        named = {}
        for number, item in enumerate(picture_items, start=1):
            name = next(names) if isinstance(item, PathLike) else f"picture {number}"
            named[_unique_name(name, named)] = replace(read_picture(item), name=name)
    else:
        return {}, documents
    return (named, others or None) if named else ({}, documents)


def _is_picture(document: Any) -> bool:
    if isinstance(document, Mapping):  # a row, or a part of a message
        return medium_type(document) == "image" and not any(isinstance(document.get(key), str) for key in TEXT_KEYS)
    return isinstance(document, Picture) or is_opened_picture(document) or _is_picture_file(document)


def _is_picture_file(document: Any) -> bool:
    return isinstance(document, PathLike) and Path(document).suffix.casefold() in PICTURE_SUFFIXES


def _search_hits(documents: Any) -> Any:
    """Return the documents in a search result, and pairs of names and texts (a map of Parquet) as texts by name.

    Anything else is returned unchanged.
    """
    if isinstance(documents, list) and documents and all(map(_is_named_text, documents)):
        if len(by_name := dict(documents)) < len(documents):
            raise InputError("two documents have the same name; give them different ones")
        return by_name
    for key in LIST_KEYS:
        hits = _field(documents, key)
        if isinstance(hits, Mapping):
            return _search_hits(hits)  # Elasticsearch's {"hits": {"hits": [...]}}
        if isinstance(hits, list):
            lists = (hit if isinstance(hit, list) else [hit] for hit in hits)  # Chroma: one for each question
            return [hit for hit_list in lists for hit in hit_list]
    if isinstance(documents, Mapping) and len(documents) == 1:
        (answer,) = documents.values()  # of the only component of a Haystack pipeline that answers
        if isinstance(answer, Mapping) and any(isinstance(answer.get(key), list) for key in LIST_KEYS):
            return _search_hits(answer)
    return documents


def _field(value: Any, key: str) -> Any:
    """Return the value of a key or an attribute; None if there is none."""
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)


def _each_document(documents: Any) -> Iterable[Any]:
    """Return a list of documents; the rows of a frame or a table."""
    if isinstance(documents, str | PathLike) or _is_document(documents):
        return [documents]
    for to_rows in ("to_dicts", "to_pylist"):  # polars; Arrow
        if rows := _method(documents, to_rows):
            return list(rows())
    if hasattr(documents, "to_dict") and hasattr(documents, "columns"):  # pandas
        return list(documents.to_dict("records"))
    if isinstance(documents, Set | bytes) or not isinstance(documents, Iterable):
        raise InputError(
            f"expected documents as texts by name or a list of texts or documents, got {type(documents).__name__}"
        )
    return documents


def _files_of(document: Any) -> list[Any]:
    """Return the files of a folder; anything else unchanged."""
    folder = isinstance(document, PathLike) and Path(document).is_dir()
    return list(files_in(Path(document))) if folder else [document]


def _named_texts(document: Any, number: int, names: Iterator[str]) -> list[tuple[str, str]]:
    """Return the name and text of a document, or of each page of a PDF; `names` are the file names."""
    if isinstance(document, PathLike):
        return list(read_file(document, next(names)).items())
    text = _text_of(document, f"{number}")
    suffixes = *SUFFIXES, *PICTURE_SUFFIXES
    if isinstance(document, str) and document.lower().endswith(suffixes) and is_file_name(document):
        raise InputError(f"document {number} is the name of a file; pathlib.Path({document!r}) is read")
    return [(_name_of(document) or f"document {number}", text)]


def _without_score(document: Any) -> Any:
    """Return the document of a tuple (document, relevance score); anything else unchanged."""
    if isinstance(document, tuple) and len(document) == 2 and not isinstance(document[1], str):
        return document[0]
    return document


def _is_document(value: Any) -> bool:
    """Return whether a value is one document with metadata, not a collection of documents."""
    if isinstance(value, str | PathLike):
        return True
    fields = value if isinstance(value, Mapping) else {k: getattr(value, k, None) for k in (*TEXT_KEYS, *METADATA_KEYS)}
    has_text = any(isinstance(fields.get(key), str) for key in TEXT_KEYS) or _method(value, "get_content") is not None
    return has_text and any(isinstance(fields.get(key), Mapping) for key in METADATA_KEYS)


def _text_of(document: Any, name: str) -> str:
    """Return a document's text.

    Raises:
        InputError: If it has none.
    """
    document = _without_score(document)
    if isinstance(document, str):
        return document
    if isinstance(document, PathLike):
        return "\n\n".join(read_file(document).values())
    if get_content := _method(document, "get_content"):
        return str(get_content())
    for text in (*(_field(document, key) for key in TEXT_KEYS), _text_in_metadata(document)):
        if isinstance(text, str):
            return text
    has = document.__contains__ if isinstance(document, Mapping) else partial(hasattr, document)
    if any(has(key) and is_missing(_field(document, key)) for key in TEXT_KEYS):
        return ""
    expected = "a string or a retriever's document"
    if isinstance(document, Mapping):
        name_keys = (*NAME_KEYS, *PAGE_KEYS, *ID_KEYS)  # a title is not the document
        text_keys = [key for key, value in document.items() if isinstance(value, str) and key not in name_keys]
        if len(text_keys) == 1:
            return str(document[text_keys[0]])
        expected = f"one of the keys {', '.join(TEXT_KEYS)}"
    raise InputError(f"document {name} has no text: expected {expected}, got {_type_name(document)}")


def _text_in_metadata(document: Any) -> str | None:
    """Return the text among a document's metadata, where vector stores keep it; None if there is none."""
    metadata = (_field(document, key) for key in METADATA_KEYS)
    texts = (fields[key] for fields in metadata if isinstance(fields, Mapping) for key in TEXT_KEYS if key in fields)
    return next((text for text in texts if isinstance(text, str)), None)


def _method(value: Any, name: str) -> Callable[[], Any] | None:
    """Return a method of an object by its name, None if it has none."""
    method = getattr(value, name, None)
    return method if callable(method) else None


def _type_name(document: Any) -> str:
    """Return the keys of a mapping, or the name of a value's type, for errors."""
    if isinstance(document, Mapping):
        return ", ".join(map(str, document))
    return "None" if document is None else type(document).__name__


def _name_of(document: Any) -> str:
    """Return a document's source and page from its metadata; empty if it has none."""
    if isinstance(document, str):
        return ""
    columns = document if isinstance(document, Mapping) else {}
    inner = getattr(document, "node", document)  # LlamaIndex's NodeWithScore
    for key in METADATA_KEYS:
        metadata = columns.get(key) if columns else getattr(inner, key, None)
        if isinstance(metadata, Mapping):
            columns = {**columns, **metadata}
    name = next((str(columns[key]).strip() for key in NAME_KEYS if isinstance(columns.get(key), str | PathLike)), "")
    page = next((columns[key] for key in PAGE_KEYS if isinstance(columns.get(key), str | int)), None)
    return f"{name}, page {page}" if name and page is not None else name


def _unique_name(name: str, names: Mapping[str, Any]) -> str:
    """Return a name that is not among `names`: the name, or the name with a number."""
    unique, count = name, 1
    while unique in names:
        count += 1
        unique = f"{name} ({count})"
    return unique


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


def _is_named_text(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(part, str) for part in value)


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
    """Return an HTML page as text, decoded by the charset that it declares if that reads the declaration itself."""
    declared = re.search(rb"<meta[^>]+charset=[\"']?([\w-]+)", content[:2048], re.IGNORECASE)
    if declared:
        with suppress(LookupError, UnicodeError):  # no such encoding, or another one
            text = content.decode(declared.group(1).decode())
            if declared.group().decode("ascii", "replace") in text:
                return text.lstrip("\ufeff")
    try:
        return content.decode(encoding_of(content)).lstrip("\ufeff")
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
