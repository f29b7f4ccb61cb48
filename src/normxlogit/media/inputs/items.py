"""Pictures and sounds as callers pass them: one, or several in any container; as a value, a file or a mapping."""

import base64
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import product, repeat
from numbers import Number
from pathlib import Path
from types import NoneType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np

from ...errors import InputError
from ...inputs.texts import arrow_value, collected, is_column, named_columns

PICTURE_SUFFIXES = {".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
"""Suffixes of files of pictures."""

SUFFIXES = PICTURE_SUFFIXES | {".aif", ".aiff", ".flac", ".mp3", ".oga", ".ogg", ".opus", ".wav"}
"""Suffixes of files of pictures and sounds."""

Part = Mapping[str, Any]
"""A part of a message, a row, or a file of a data set, by its keys."""

MEDIA_TYPES = ("image", "audio")
"""Types of parts of messages that are pictures or sounds, and their keys in such a part."""

EXPECTED = {
    "picture": "a path, a Pillow picture or an array of (height, width, 3)",
    "sound": "a path or one channel of samples",
}
"""Descriptions of a picture and a sound, for errors."""

BASE64_STARTS = ("data:", "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")
"""Beginnings of data URIs, and of PNG, JPEG, GIF and WebP files in base64."""

IsItem = Callable[[Any], bool]
"""Returns whether a value is one picture, or one sound."""

RATE_KEYS = ("sampling_rate", "sample_rate")
"""Keys of the sampling rate in a row, or in a mapping with samples."""


def media_items(inputs: Any, is_item: IsItem, kind: str) -> tuple[list[Any], bool]:
    """Return one or several pictures or sounds as a list.

    They may come in any container: a list, generator, array, column, Arrow array, or a table with one column of them.

    Args:
        inputs: One or several pictures or sounds, or a table of them.
        is_item: Whether a value is one of them.
        kind: "picture" or "sound", for errors.

    Returns:
        The list, and whether a single one was given.

    Raises:
        InputError: If there are none, or it is not clear which column holds them.
    """
    inputs = as_array(_column(inputs, is_item, kind))
    if is_item(inputs):
        return [inputs], True
    # A set has no order, and a mapping that is neither a table nor a medium would give its keys.
    if isinstance(inputs, Set | Mapping) or not isinstance(inputs, Iterable):
        raise InputError(f"a {kind} or a list of them is expected, not {type(inputs).__name__}")
    items = list(map(arrow_value, inputs))
    for place, item in enumerate(items):
        if not is_item(as_array(item)):
            shape = f" of shape {tuple(item.shape)}" if hasattr(item, "shape") else ""
            raise InputError(
                f"input {place} is a {type(item).__name__}{shape}; expected one list of {kind}s, each {EXPECTED[kind]}"
            )
    return items, False


def medium_type(part: Any) -> str | None:
    """Return "image" or "audio" for a part of a message that is a picture or a sound; None for others.

    Args:
        part: The part: a mapping with a "type", or with the key "image" or "audio"; or an opened picture.
    """
    if not isinstance(part, Mapping):
        return "image" if is_opened_picture(part) else None
    type_ = part.get("type")
    if type_ is None:
        return first_key(part, MEDIA_TYPES)
    return type_ if type_ in MEDIA_TYPES else None


def first_key(item: Part, keys: Iterable[str]) -> str | None:
    """Return the first of some keys under which a mapping has a value; None if it has one under none of them.

    Args:
        item: A part of a message, a row, or a file of a data set.
        keys: The keys.
    """
    return next((key for key in keys if item.get(key) is not None), None)


def is_path_or_bytes(item: Any) -> bool:
    """Return whether a value is a path, an address, a text in base64, or the bytes of a file."""
    return isinstance(item, str | Path | bytes | bytearray | memoryview)


def is_file(item: Any) -> bool:
    """Return whether a value is the path of a file, as `source_of` returns it, or an open file."""
    return isinstance(item, Path) or hasattr(item, "read")


def is_opened_picture(item: Any) -> bool:
    """Return whether a value is a Pillow picture, or an array of one."""
    return hasattr(item, "getbands") or number_axes(item) in (2, 3)


@contextmanager
def rewound(file: Any) -> Iterator[Any]:
    """Restore the position of an open file after the block, so that it can be read again."""
    place = file.tell() if hasattr(file, "seek") else None
    try:
        yield file
    finally:
        if place is not None and not getattr(file, "closed", False):
            file.seek(place)


def source_of(item: Any, kind: str, keys: Sequence[str], data_keys: Sequence[str] = ()) -> tuple[Any, str]:
    """Return where a picture or a sound is read from, and the name of its file, "" if it has none.

    It is a path, an open file, or else the item itself, which is in memory.

    Args:
        item: A path or file URL, an open file, bytes of one, a data URI or base64, or anything else; or a mapping with
            one of these under one of some keys, such as a part of a message, or a row or a file of a data set.
        kind: "picture" or "sound", for errors.
        keys: Keys under which a mapping has a path, a file or its bytes; the first that it has counts.
        data_keys: Keys of what is in memory; a mapping with one of them is returned itself.

    Raises:
        InputError: If a mapping has none of the keys, for a web address, or for what is not base64.
    """
    key = None
    name = ""
    while isinstance(item, Mapping):  # mappings in mappings: {"image": {"bytes": ..., "path": None}}
        name = Path(str(item.get("path") or name)).name
        if first_key(item, data_keys) is not None:
            return item, name
        key = first_key(item, keys)
        if key is None:
            raise InputError(
                f"a {kind} as a mapping is {{'type': {keys[0]!r}, {keys[0]!r}: ...}}, {EXPECTED[kind]}; or it is under "
                f"another of the keys {', '.join((*keys[1:], *data_keys))}"
            )
        item = item[key]
    if isinstance(item, bytes | bytearray | memoryview):
        return io.BytesIO(item), name
    if not isinstance(item, str | Path):
        return item, name
    if str(item).startswith(("http:", "https:")):
        raise InputError(f"{str(item)[:60]}: {kind}s are not fetched; give the path of a file, or the {kind} itself")
    file = _file_of(item, is_base64=key == "base64")
    return file, file.name if isinstance(file, Path) else name


def _file_of(item: str | Path, *, is_base64: bool) -> Path | io.BytesIO:
    """Return the path that a path or a file URL names, or the file in a data URI or base64."""
    if isinstance(item, Path):
        return item
    if item.startswith("file:"):
        return Path(url2pathname(urlsplit(item).path))
    return _decoded(item) if is_base64 or item.startswith(BASE64_STARTS) else Path(item)


def _decoded(text: str) -> io.BytesIO:
    """Return what a data URI or base64 holds."""
    try:
        # In a data URI the base64 follows a comma, which base64 itself does not have.
        return io.BytesIO(base64.b64decode(text.rpartition(",")[2], validate=True))
    except ValueError:
        raise InputError(f"{text[:60]}: not base64") from None


def number_axes(value: Any) -> int:
    """Return how many axes an array, a tensor or a column of numbers has; 0 for anything else."""
    shape = getattr(value, "shape", None)
    dtype = str(getattr(value, "dtype", "")).casefold().removeprefix("torch.")  # polars writes Int64
    is_numeric = dtype.startswith(("int", "uint", "float", "bfloat", "bool"))
    return len(shape) if shape is not None and is_numeric else 0


def detached(value: Any) -> Any:
    """Return a tensor as NumPy can read it: without its graph, on the host, floats as float32; others unchanged."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return value.float() if value.is_floating_point() else value


def as_array(value: Any) -> Any:
    """Return lists in lists of numbers, or an Arrow array of them, as an array; anything else unchanged."""
    if hasattr(value, "to_numpy") and str(getattr(value, "type", "")).startswith(("int", "uint", "float", "double")):
        return value.to_numpy()
    depth = 0  # how many lists are around the first number
    innermost = value
    while isinstance(innermost, list | tuple) and innermost:
        depth += 1
        innermost = innermost[0]
    if depth < 2 or not isinstance(innermost, Number):
        return value
    try:
        return np.asarray(value)
    except ValueError:  # of several lengths, as several sounds have: not one array
        return value


def _column(inputs: Any, is_item: IsItem, kind: str) -> Any:
    """Return the only column of pictures or sounds of a frame, a table or a data set; anything else unchanged."""
    inputs = collected(inputs)
    columns = None if isinstance(inputs, Mapping) and is_item(inputs) else named_columns(inputs)
    if columns is None:
        return inputs
    names = columns_of_media(inputs, columns, is_item)
    if len(names) != 1:
        amount = "several columns" if names else "no column"
        shown = names or list(columns)
        example = str(next(iter(shown), "name"))
        raise InputError(
            f"a {type(inputs).__name__} with {amount} of {kind}s was given ({', '.join(map(repr, shown))}); pass the "
            f"column: data[{example!r}]"
        )
    column = columns[names[0]]
    rate_key = next((key for key in RATE_KEYS if key in columns), None)  # only sounds have a rate beside them
    return column if rate_key is None else _with_rates(column, columns[rate_key], is_item)


def _with_rates(column: Any, rates: Any, is_item: IsItem) -> Any:
    """Return sounds paired with their sampling rates.

    Args:
        column: Several sounds, or the samples of a single one.
        rates: The rate of each, or one rate for all.
        is_item: Whether a value is one sound.
    """
    if isinstance(rates, Number) and is_item(as_array(column)):
        return _with_rate(column, rates)
    rate_of_each = repeat(rates, len(column)) if isinstance(rates, Number) else rates
    return [_with_rate(item, rate) for item, rate in zip(column, rate_of_each, strict=True)]


def columns_of_media(inputs: Any, columns: Mapping[Any, Any], is_item: IsItem) -> list[Any]:
    """Return the names of the columns, or of a single row's values, that hold pictures or sounds.

    A text counts where it ends as the path of such a file does, and any text where nothing else could be one.

    Args:
        inputs: A frame, a table, a data set, or a mapping, which may be a single row.
        columns: Its columns by name.
        is_item: Whether a value is one picture, or one sound.
    """
    first_row = {name: arrow_value(next(iter(column), None)) for name, column in columns.items() if is_column(column)}
    # The values of a mapping may be columns, or those of a single row.
    rows = [first_row, columns] if isinstance(inputs, Mapping) else [first_row]
    for any_text, row in product((False, True), rows):  # first in all rows for what is surely one
        possible = {name: value for name, value in row.items() if _may_be_medium(value, any_text=any_text)}
        names = [name for name, value in possible.items() if is_item(as_array(value))]
        if names:
            return names
    return []


def _may_be_medium(value: Any, *, any_text: bool) -> bool:
    """Return whether a value of a row may be a picture or a sound: not a number, not None.

    A text may be one if it ends as the path of such a file does, or if any text may.
    """
    if isinstance(value, str):
        return any_text or Path(value).suffix.casefold() in SUFFIXES
    return not isinstance(value, Number | NoneType)


def _with_rate(item: Any, rate: Any) -> Any:
    """Return samples paired with their rate; a file, or a sound with a rate, unchanged."""
    # A mapping has a rate of its own, and a path or an open file names it.
    is_samples = number_axes(item) or (isinstance(item, list | tuple) and number_axes(np.asarray(item)))
    return {"array": item, "sampling_rate": rate} if is_samples else item
