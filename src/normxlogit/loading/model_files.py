"""Single files of a model, in its folder or in the hub's cache."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers.utils.hub import cached_file

from ..errors import InputError


def read_model_json(source: str, name: str, options: Mapping[str, Any]) -> Any:
    """Return the contents of a JSON file of a model, None if there is no such file."""
    file = find_file(source, name, options)
    if file is None:
        return None
    try:
        return json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{source}: {name} cannot be read as JSON") from None


def download_options(options: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """Return those of the options of `from_pretrained` that say where the files of a model are, and some more."""
    return {name: options[name] for name in ("revision", "subfolder", "token", *more) if name in options}


def find_file(source: str, name: str, options: Mapping[str, Any]) -> str | None:
    """Return the local path of a file of a model, None if there is no such file."""
    if not source:
        return None
    try:
        path: str | None = cached_file(source, name, **download_options(options))
    except OSError:  # no such file or model, or an invalid name
        return None
    return path
