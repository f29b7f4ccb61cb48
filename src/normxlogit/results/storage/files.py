"""Atomic writes by a temporary file that is synchronised and renamed, and JSON that is safe to show."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from ...errors import DataError, reason_of

# Controls, marks of writing direction, line separators and halves of surrogate pairs.
HIDDEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which replaces a file (of a link, its target) when the block ends.

    The old file stays if the block or the disk fails. What is not a regular file (`/dev/stdout`) is written directly.
    """
    temporary: Path | None = None
    try:
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise DataError(f"cannot write {path}: it is a folder")
        if target.exists() and not target.is_file():
            yield target
            return
        if target.exists() and not os.access(target, os.W_OK):  # a rename would not ask
            raise DataError(f"cannot write {path}: the file is read-only")
        # The suffix stays, as writers choose the format by it; a long one is cut, as names have at most 255 bytes.
        temporary = target.with_name(f".writing-{uuid4().hex}{target.suffix[-20:]}")
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # the content is on the disk before the name is
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DataError(f"cannot write {path}: {reason_of(error)}") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_bytes(content: bytes, path: str | Path) -> None:
    """Write a file atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(content: str, path: str | Path) -> None:
    """Write a UTF-8 file atomically; lone surrogates become question marks."""
    write_bytes(content.encode("utf-8", errors="replace"), path)


def written(content: str, path: str | Path | None) -> str | None:
    """Return a page, or write it to `path` and return None."""
    if path is None:
        return content
    write_text(content, path)
    return None


def json_text(state: Any, *, ascii_only: bool = False) -> str:
    """Return a state as strict JSON without characters that a terminal must not show, which are escaped."""
    try:
        text = json.dumps(state, ensure_ascii=ascii_only, allow_nan=False, indent=1)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"cannot be written as JSON: {error}") from None
    return HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def write_json(state: Any, path: str | Path) -> None:
    """Write a state as a JSON file atomically."""
    write_text(json_text(state), path)


def content_of(path: str | Path) -> bytes:
    """Return what a file holds."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file."""
    try:
        return json.loads(content_of(path))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise DataError(f"{path}: not JSON: {reason}") from None
