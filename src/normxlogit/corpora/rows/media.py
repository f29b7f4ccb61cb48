"""Pictures and sounds in the rows of a corpus: the files that are named, and whether they were replaced."""

import os
import stat
from collections.abc import Mapping, Sequence
from glob import has_magic, iglob
from pathlib import Path
from typing import Any

from ...errors import DataError, reason_of
from ...media.inputs.items import SUFFIXES


def media_files(names: Sequence[str]) -> list[str]:
    """Return the paths of pictures and sounds for files, folders and patterns, in their order; none for tables.

    Raises:
        DataError: If other inputs are among them.
    """
    files_by_name = [_files(name) for name in names]
    if any(files_by_name) and not all(files_by_name):
        missing_name = names[files_by_name.index([])]
        raise DataError(f"{missing_name} is neither a picture or sound nor a folder of them, as the other inputs are")
    return [path.encode("utf-8", "replace").decode() for paths in files_by_name for path in paths]


def _files(name: str) -> list[str]:
    """Return the paths of the pictures and sounds that a path, a folder or a pattern names; none for other files."""
    place = Path(name)
    try:
        if place.is_dir():
            inside = (path for path in place.rglob("*") if not path.is_dir())
            paths = [path for path in inside if not any(part[0] == "." for part in path.relative_to(place).parts)]
        elif place.exists() or not has_magic(name):
            paths = [place]
        else:
            paths = [path for path in map(Path, iglob(name, recursive=True)) if not path.is_dir()]
        return sorted(str(path) for path in paths if path.suffix.lower() in SUFFIXES)
    except (OSError, ValueError):  # not a path: the reader of tables raises the error
        return []


def path_of(cell: Any) -> str | None:
    """Return the path that a cell names, also as the file of a data set; None if it holds the file itself."""
    if isinstance(cell, Mapping):
        return None if cell.get("bytes") is not None or "array" in cell else path_of(cell.get("path"))
    return str(cell) if isinstance(cell, str | Path) and str(cell).isprintable() else None


def stamp_of(cell: Any, column: str) -> str:
    """Return the size and the modification time of the regular file that a cell names; "" if it holds the file itself.

    Raises:
        ValueError: If there is no such file, or nothing in the cell.
    """
    path = path_of(cell)
    if cell is None or (isinstance(cell, Mapping) and not any(value is not None for value in cell.values())):
        raise ValueError(f"no file: column {column!r} is null")
    if path is None:
        return ""
    if "://" in path:
        raise ValueError("a URL, which is not fetched: give the path of a file")
    try:
        state = os.stat(path)
    except FileNotFoundError:
        hint = "" if os.path.isabs(path) else "; relative paths start at the working directory"
        raise ValueError(f"no such file{hint}") from None
    except OSError as error:
        raise ValueError(f"the file cannot be read: {reason_of(error)}") from None
    if not stat.S_ISREG(state.st_mode):  # a pipe would be waited for, and a device never ends
        raise ValueError("a folder, not a file" if stat.S_ISDIR(state.st_mode) else "not a regular file")
    return f"{state.st_size} {state.st_mtime_ns}"
