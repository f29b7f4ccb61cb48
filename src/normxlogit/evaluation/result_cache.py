"""Finished results of a long run, kept in a folder so that a run that was stopped goes on where it was."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..results.files import read_json, write_text

__all__ = ["ResultCache"]


class ResultCache:
    """Results as JSON files in a folder, each written whole or not at all and named by all that it depends on.

    Args:
        folder: Where they are; None keeps nothing.
        shared: What all of them depend on, as plain values.
        form: The class whose fields they hold: what a version with other fields has written is not read.
    """

    def __init__(self, folder: Path | None, shared: Sequence[Any], form: type) -> None:
        self.folder = folder
        self.shared = [*shared, [field.name for field in fields(form)]]

    def get(self, name: str, *request: Any) -> dict[str, Any] | None:
        """Return a finished result, None if there is none.

        Raises:
            DataError: If its file is broken.
        """
        path = self._path(name, request)
        if path is None or not path.is_file():
            return None
        state: dict[str, Any] = read_json(path)
        return state

    def put(self, state: dict[str, Any], name: str, *request: Any) -> dict[str, Any]:
        """Keep a result, and return it."""
        path = self._path(name, request)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(json.dumps(state), path)
        return state

    def _path(self, name: str, request: Sequence[Any]) -> Path | None:
        if self.folder is None:
            return None
        everything = json.dumps([self.shared, name, request], sort_keys=True)
        return self.folder / f"{name}-{hashlib.sha256(everything.encode()).hexdigest()[:16]}.json"
