"""Files that are whole or not there: written beside their place, then renamed."""

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import DataError

__all__ = ["json_text", "read_json", "replacing", "write_bytes", "write_json", "write_text"]


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a path beside a file to write to; put it in the file's place when the block ends well.

    A reader sees the old file or the new one, never a part. When the block or the disk fails, the old file stays
    and what was written beside it is removed. What is no regular file, such as `/dev/stdout`, is written directly.

    Args:
        path: The file to write; a link is followed.

    Yields:
        Where to write.

    Raises:
        DataError: If the file cannot be written.
    """
    wanted = Path(path)
    beside: Path | None = None
    try:
        target = Path(os.path.realpath(wanted))
        if target.is_dir():
            raise DataError(f"cannot write {wanted}: it is a folder")
        if target.exists() and not target.is_file():
            yield target
            return
        if target.exists() and not os.access(target, os.W_OK):  # a rename would not ask
            raise DataError(f"cannot write {wanted}: the file is read-only")
        # The suffix stays: writers choose the format by it.
        handle, name = tempfile.mkstemp(prefix=".writing-", suffix=target.suffix[-20:], dir=target.parent)
        os.close(handle)
        beside = Path(name)
        yield beside
        with beside.open("rb+") as written:
            os.fsync(written.fileno())
        beside.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask())
        beside.replace(target)
        beside = None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"cannot write {wanted}: {reason}") from None
    finally:
        if beside is not None:
            with suppress(OSError):
                beside.unlink()


def write_bytes(content: bytes, path: str | Path) -> None:
    """Write a file, whole or not at all.

    Raises:
        DataError: If the file cannot be written.
    """
    with replacing(path) as beside:
        beside.write_bytes(content)


def write_text(content: str, path: str | Path) -> None:
    """Write a UTF-8 file, whole or not at all; half a surrogate pair, which UTF-8 lacks, becomes a question mark.

    Raises:
        DataError: If the file cannot be written.
    """
    write_bytes(content.encode("utf-8", errors="replace"), path)


def json_text(state: Any, *, ascii_only: bool = False) -> str:
    """Return a state as JSON that any strict parser reads and any terminal may show.

    Control characters, marks that turn the writing direction and half surrogate pairs are escaped, the rest stays
    readable.

    Args:
        state: Lists and dicts of strings, numbers, booleans and None.
        ascii_only: Whether to escape every character beyond ASCII.

    Raises:
        DataError: If the state holds something else, such as a number that is not finite.
    """
    try:
        text = json.dumps(state, ensure_ascii=ascii_only, allow_nan=False, indent=1)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"cannot be written as JSON: {error}") from None
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def write_json(state: Any, path: str | Path) -> None:
    """Write a state as a JSON file, whole or not at all.

    Raises:
        DataError: If the state is not JSON, or the file cannot be written.
    """
    write_text(json_text(state), path)


def read_json(path: str | Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        DataError: If the file cannot be read or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except RecursionError:
        raise DataError(f"{path}: not JSON that can be read: nested too deeply") from None
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None


_HIDDEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _umask() -> int:
    """Return the permissions that new files go without; they can only be read by setting them."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
