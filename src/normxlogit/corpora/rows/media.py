"""Pictures and sounds in the rows of a corpus: the files that are named, and whether they were replaced."""

import os
from collections.abc import Mapping, Sequence
from glob import has_magic, iglob
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...inputs.text_files import visible_files
from ...media.inputs.items import SUFFIXES


def media_files(names: Sequence[str]) -> list[str]:
    """Return the paths of pictures and sounds for files, folders and patterns, in their order; none for tables."""
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
            paths = visible_files(place, SUFFIXES)
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


def stamp_of(cell: Any) -> str:
    """Return the size and the modification time of the file that a cell names; "" if there is none."""
    path = path_of(cell)
    try:
        state = None if path is None else os.stat(path)
    except (OSError, ValueError):  # whoever reads the row says so
        state = None
    return "" if state is None else f"{state.st_size} {state.st_mtime_ns}"
