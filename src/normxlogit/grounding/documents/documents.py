"""Documents with names: texts, mappings and objects with a text and metadata, and files."""

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...inputs.message_parts import part_readers, part_type
from ...inputs.texts import (
    collected,
    is_file_name,
    is_missing,
    named_columns,
    numbered,
    plain_cell,
    with_distinct_names,
)
from .files import READERS, Texts, files_in, read_file

TEXT_KEYS = ("page_content", "text", "content")
"""Names of a document's text, as a key of a mapping or an attribute of an object."""

METADATA_KEYS = ("metadata", "meta")
"""Names of its metadata."""

NAME_KEYS = ("source", "file_name", "file_path", "url", "title", "name")
"""Keys of metadata, or beside the text, for the name of what the text is of."""

PAGE_KEYS = ("page_label", "page", "page_number")

Named = list[tuple[str, Any]]
"""Documents, or what was read of them, each with its name."""


def read_documents(documents: Any) -> tuple[Texts, dict[str, Any]]:
    """Return the texts and the pictures among documents by their names, without empty texts and leading white space.

    Args:
        documents: A text, a file (`pathlib.Path`, of a suffix of `READERS`) or a folder of them, texts by name, or an
            iterable of texts, files, and mappings or objects with a text (`page_content`, `text` or `content`) and
            `metadata` or `meta`; a frame or a table of such rows. In a list or by name also pictures: of Pillow,
            arrays, or files.

    Returns:
        Texts and pictures, each by name. A name is that of the mapping, of the metadata ("report.pdf, page 3") or of
        the file, with as much of its path as tells files apart, or "document 2"; those of one name are counted
        ("report.pdf (2)").

    Raises:
        InputError: If there is no document, one has no text, or a picture cannot be read.
        DataError: If a file cannot be read.
    """
    pictures, texts, number = Named(), Named(), 0  # texts and pictures without a name are counted apart
    for name, document in _named(documents):
        if _is_picture(document):
            pictures.append((name, document))
        else:
            number += 1
            texts += _texts_by_name(name, document, number)
    names = numbered(name for name, _ in texts)
    by_name = {name: text for name, (_, text) in zip(names, texts, strict=True) if text}
    if not by_name and not pictures:
        raise InputError("there is no document with a text")
    return by_name, _read_pictures(pictures)


def _texts_by_name(name: str, document: Any, number: int) -> Named:
    """Return the texts of a document with their names; without a name it is called by its number."""
    parts = _texts_of(document, repr(name) if name else f"{number}")
    called = name or _name_of(document) or f"document {number}"
    return [(called + part, text.lstrip()) for part, text in parts.items()]


def _read_pictures(pictures: Named) -> dict[str, Any]:
    """Return pictures as they are read, by name; those without a name are called by their number."""
    if not pictures:
        return {}
    from ...media.inputs.pictures import read_picture

    media = [
        replace(read_picture(picture), name=name or f"picture {number}")
        for number, (name, picture) in enumerate(pictures, start=1)
    ]
    return {medium.name: medium for medium in with_distinct_names(media)}


def _named(documents: Any) -> Named:
    """Return documents with their names: those of a mapping, or of files; "" for others."""
    if _is_one_document(documents):
        return _with_files([documents])
    if isinstance(documents, Mapping):
        return [(str(name), document) for name, document in documents.items()]
    if _is_arrow_map(documents):  # before lists of texts: it is a list, too
        return [*documents]
    documents = collected(documents)
    if (columns := named_columns(documents)) is not None:
        rows = zip(*columns.values(), strict=True)
        documents = [dict(zip(columns, map(plain_cell, row), strict=True)) for row in rows]
    if isinstance(documents, Set | bytes) or not isinstance(documents, Iterable):
        # Sets have no order, and bytes are numbers.
        raise InputError(f"expected documents: texts by name, or a list of texts, got {type(documents).__name__}")
    return _with_files(documents)


def _with_files(documents: Iterable[Any]) -> Named:
    """Return documents, the files in folders among them, with the names of files and "" for others."""
    items = [item for document in documents for item in _files_of(document)]
    # Of all files together, as paths tell apart those of one name; taken one by one, in the order of the items.
    names = iter(names_of_files([Path(item) for item in items if isinstance(item, PathLike)]))
    return [(next(names) if isinstance(item, PathLike) else "", item) for item in items]


def _is_one_document(value: Any) -> bool:
    """Return whether a value is a text, a file, a picture or a text with metadata, not a collection of documents."""
    if isinstance(value, list):  # always several, whatever it holds
        return False
    return isinstance(value, str | PathLike) or _is_picture(value) or _has_metadata(value)


def _is_arrow_map(value: Any) -> bool:
    """Return whether a value is texts by name as Arrow has them: a list of pairs."""
    is_pairs = isinstance(value, list) and all(isinstance(pair, tuple | list) for pair in value)
    return is_pairs and bool(value) and all([*map(type, pair)] == [str, str] for pair in value)


def _files_of(document: Any) -> Sequence[Any]:
    """Return the files in a folder; any other document unchanged."""
    is_folder = isinstance(document, PathLike) and Path(document).is_dir()
    return files_in(Path(document)) if is_folder else [document]


def _is_picture(document: Any) -> bool:
    """Return whether a value is a picture, or the path of one, which the wing of pictures reads, if it is there."""
    if isinstance(document, PathLike):
        return _is_picture_file(Path(document))
    # A row of a data set may have a text and a picture: it is a text here.
    if isinstance(document, str) or (isinstance(document, Mapping) and _first(document, TEXT_KEYS, str) is not None):
        return False
    return part_type(document) == "image" or getattr(document, "kind", "") == "picture"  # a `ReadPart`


def _is_picture_file(path: Path) -> bool:
    parts = [reader.of_file(str(path)) for reader in part_readers() if path.suffix.lower() not in READERS]
    return any(part is not None and part["type"] == "image" for part in parts)


def _fields(document: Any) -> dict[str, Any]:
    """Return what a mapping holds, or the text and the metadata of an object, by their keys."""
    if isinstance(document, Mapping):
        return dict(document)
    keys = (*TEXT_KEYS, *METADATA_KEYS)
    return {key: getattr(document, key) for key in keys if hasattr(document, key)}


def _first(fields: Mapping[str, Any], keys: tuple[str, ...], kind: Any) -> Any:
    """Return what a mapping has of a kind under the first of some keys; None if there is nothing."""
    return next((fields[key] for key in keys if isinstance(fields.get(key), kind)), None)


def _has_metadata(value: Any) -> bool:
    """Return whether a value is a text with metadata."""
    fields = _fields(value)
    return None not in (_first(fields, TEXT_KEYS, str), _first(fields, METADATA_KEYS, Mapping))


def _texts_of(document: Any, name: str) -> Texts:
    """Return a document's text, or those of its parts, as `read_file`; without one it is refused."""
    if isinstance(document, PathLike):
        return read_file(document)
    if isinstance(document, str):
        _check_text(document, name)
        return {"": document}
    fields = _fields(document)
    if (text := _first(fields, TEXT_KEYS, str)) is not None:
        return {"": text}
    if any(is_missing(fields[key]) for key in TEXT_KEYS if key in fields):  # an empty cell of a table is an empty text
        return {}
    # A mapping is described by its keys, one of which may be misspelt.
    kind = ", ".join(map(str, document)) if isinstance(document, Mapping) else type(document).__name__
    raise InputError(f"document {name} has no text: expected a string or {' or '.join(TEXT_KEYS)}, got {kind}")


def _check_text(text: str, name: str) -> None:
    """Refuse a text that is the name of a file which is read."""
    path = Path(text)
    if is_file_name(text) and (path.suffix.lower() in READERS or _is_picture_file(path)):
        raise InputError(f"document {name} is the name of a file; pathlib.Path({text!r}) is read")


def _name_of(document: Any) -> str:
    """Return a document's source and page from its metadata; empty if it has none."""
    fields = _fields(document)
    fields |= _first(fields, METADATA_KEYS, Mapping) or {}  # metadata come before what stands beside the text
    name = str(_first(fields, NAME_KEYS, str | PathLike) or "").strip()
    page = _first(fields, PAGE_KEYS, str | int)
    return f"{name}, page {page}" if name and page is not None else name


def names_of_files(files: Sequence[Path]) -> list[str]:
    """Return the name of each file; files of the same name get as much of their paths as makes them unique."""
    names = []
    for file in files:
        parents = [str(namesake.absolute().parent) for namesake in files if namesake.name == file.name]
        names.append(file.absolute().relative_to(os.path.commonpath(parents)).as_posix())
    return names
