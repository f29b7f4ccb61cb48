"""The version of the file format, which every file of results states."""

from collections.abc import Mapping
from typing import Any

from ...errors import DataError
from .schema import shortened

FORMAT_VERSION = 1
"""Version of the files that are written; raised when a reader of the old one would misread the new."""


def checked_version(state: Any) -> Mapping[str, Any]:
    """Return a document whose version this library reads.

    Raises:
        DataError: If it is something else, or of another version.
    """
    if not isinstance(state, Mapping):
        raise DataError(f"not a result of normxlogit: expected fields with values, got {shortened(state)}")
    version = state.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise DataError(f"cannot read format version {shortened(version)}; this version reads {FORMAT_VERSION}")
    return state
