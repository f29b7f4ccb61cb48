"""Files of texts: their encoding, and what is the name of one."""

from collections.abc import Container
from pathlib import Path

from ..errors import DataError

UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16."""


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text by its first bytes: UTF-16, which has a mark, or UTF-8 with a mark or without."""
    return "utf-16" if start.startswith(UTF16) else "utf-8-sig"


def decoded(content: bytes, name: str) -> str:
    """Return bytes of UTF-8, or of UTF-16 with its mark, as text with line feeds; no other is guessed."""
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


def visible_files(folder: Path, suffixes: Container[str]) -> list[Path]:
    """Return the files of some suffixes in a folder and its subfolders, without hidden files and folders."""
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in suffixes
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
