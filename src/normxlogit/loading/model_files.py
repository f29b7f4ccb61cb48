"""Single files of a model, in its folder or in the hub's cache."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers.utils.hub import cached_file

from ..errors import InputError

LoadOptions = Mapping[str, Any]
"""Options of transformers' `from_pretrained`, by name."""

Options = dict[str, Any]
"""The same, or settings of a pipeline, where some are added or taken."""


def read_model_json(source: str, name: str, options: LoadOptions) -> Any:
    """Return the contents of a JSON file of a model, None if there is no such file.

    Args:
        source: The folder or hub name.
        name: The name of the file.
        options: Those of transformers' `from_pretrained`, such as a revision.
    """
    file = find_file(source, name, options)
    if file is None:
        return None
    try:
        return json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{source}: {name} cannot be read as JSON") from None


def download_options(options: LoadOptions, *more: str) -> LoadOptions:
    """Return those of the options of `from_pretrained` that say where the files of a model are, and some more."""
    return {name: options[name] for name in ("revision", "subfolder", "token", *more) if name in options}


def find_file(source: str, name: str, options: LoadOptions) -> str | None:
    """Return the local path of a file of a model, None if there is no such file.

    Args:
        source: The folder or hub name.
        name: The name of the file.
        options: Those of transformers' `from_pretrained`, such as a revision.
    """
    if not source:
        return None
    try:
        path: str | None = cached_file(source, name, **download_options(options))
    except OSError:  # no such file or model, or an invalid name
        return None
    return path
