"""Pictures and sounds in the rows of a corpus: paths, contents of files, or objects in memory."""

import io
import os
import stat
from collections.abc import Mapping, Sequence
from glob import has_magic, iglob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import DataError, InputError, reason_of
from ...media.inputs.items import SUFFIXES, is_opened_picture
from ...media.inputs.pictures import opened_picture

PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16", "F")
"""Pillow modes that PNG stores without change, and "F", for which Pillow raises an error."""


class MediumCell(NamedTuple):
    """A picture or a sound of a row.

    Attributes:
        text: The path of its file; None for one that is not a file.
        content: The content of its file, or an array in numpy's format; None for a path.
        rate: Samples a second of an array; None for files.
        stamp: Size and time of the file at the path, by which a run that goes on sees that it was replaced.
    """

    text: str | None = None
    content: bytes | None = None
    rate: int | None = None
    stamp: str | None = None


def media_columns(
    arrow: Any, values: Sequence[Any], name: str, problems: list[str | None], prefix: str = ""
) -> dict[str, Any]:
    """Return the pictures or sounds of a column as columns of a shard; an invalid cell is its row's problem."""
    rows = []
    for row, value in enumerate(values):
        try:
            rows.append(_medium(value, name))
        except ValueError as error:  # noqa: PERF203  # of this row alone
            rows.append(MediumCell(value if isinstance(value, str) and value.isprintable() else None))
            problems[row] = problems[row] or str(error)
    kinds = (arrow.string(), arrow.large_binary(), arrow.int64(), arrow.string())
    columns = zip(MediumCell._fields, kinds, strict=True)
    return {prefix + field: arrow.array([getattr(row, field) for row in rows], kind) for field, kind in columns}


def media_of(table: Any, prefix: str = "") -> list[Any]:
    """Return the pictures or sounds of a shard as inputs: paths, open files, or samples with their rate."""
    columns = (table[prefix + name].to_pylist() for name in MediumCell._fields)
    return [_input_of(MediumCell(*row)) for row in zip(*columns, strict=True)]


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


def _input_of(cell: MediumCell) -> Any:
    """Return a cell as an input: a path, an open file, or samples with their rate."""
    if cell.content is None:
        return Path(cell.text or "")
    if cell.rate is None:
        return io.BytesIO(cell.content)
    return {"array": np.load(io.BytesIO(cell.content)), "sampling_rate": cell.rate}


def _medium(value: Any, name: str) -> MediumCell:
    """Return a value as a picture or a sound.

    Args:
        value: A path; bytes; a Pillow picture or an array of levels; or a mapping with "bytes" or "path", or with
            "array" and "sampling_rate", as data sets have them.
        name: The name of its column, for errors.

    Raises:
        ValueError: If it is something else, or there is no such file.
    """
    if isinstance(value, Mapping):
        samples, rate = value.get("array"), value.get("sampling_rate")
        if samples is not None and isinstance(rate, int | float) and float(rate).is_integer():
            return MediumCell(content=_written(np.asarray(samples)), rate=int(rate))
        value = next((value[key] for key in ("bytes", "path") if value.get(key) is not None), None)
    if value is None:
        raise ValueError(f"no file: column {name!r} is null")
    if isinstance(value, str | Path):
        return MediumCell(str(value), stamp=_stamp(str(value)))
    if isinstance(value, bytes | bytearray | memoryview):
        return MediumCell(content=bytes(value))
    if is_opened_picture(value):
        return MediumCell(content=_as_file(value))
    raise ValueError(f"not a picture or a sound: column {name!r} holds {str(value)[:80]!r}")


def _stamp(path: str) -> str:
    """Return the size and the modification time of a regular file.

    Raises:
        ValueError: If there is none.
    """
    if "://" in path:
        raise ValueError("a URL, which is not fetched: give the path of a file")
    try:
        path.encode()
        state = os.stat(path)
    except FileNotFoundError:
        hint = "" if os.path.isabs(path) else "; relative paths start at the working directory"
        raise ValueError(f"no such file{hint}") from None
    except OSError as error:
        raise ValueError(f"the file cannot be read: {reason_of(error)}") from None
    except ValueError:
        raise ValueError("not a path: it holds a character that no path can hold") from None
    if not stat.S_ISREG(state.st_mode):  # a pipe would be waited for, and a device never ends
        raise ValueError("a folder, not a file" if stat.S_ISDIR(state.st_mode) else "not a regular file")
    return f"{state.st_size} {state.st_mtime_ns}"


def _as_file(picture: Any) -> bytes:
    """Return a picture as the content of a lossless file."""
    try:
        image, _ = opened_picture(picture)  # upright, as the orientation tag is not written
        if isinstance(image, np.ndarray):
            raise ValueError(f"an array of {image.dtype} of shape {image.shape}, and not of levels from 0 to 255")
        image = image if image.mode in PNG_MODES else image.convert("RGB")
        file = io.BytesIO()
        image.save(file, "PNG", exif=b"")
    except (InputError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"not a picture: {error}") from None
    return file.getvalue()


def _written(samples: Any) -> bytes:
    """Return samples as the content of a numpy file.

    Raises:
        ValueError: If they are not numbers.
    """
    file = io.BytesIO()
    np.save(file, samples, allow_pickle=False)
    return file.getvalue()
