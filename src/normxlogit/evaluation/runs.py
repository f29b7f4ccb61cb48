"""Runs of many methods on one model: finished results are kept, and progress is shown."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from .._version import __version__
from ..long_runs.model_identity import identity_of
from ..model.task_model import TaskModel
from ..results.storage.files import read_json, write_text
from ..results.storage.schema import check, plain

Item = TypeVar("Item")

Stored = TypeVar("Stored")
"""The type of a stored result."""

OnProgress = Callable[[str, int, int], None]
"""Called with the name of the work, the number of finished items and of all items."""


class ResultCache(Generic[Stored]):
    """Results as JSON files in a folder, each written atomically and named by a digest of all that it depends on."""

    def __init__(self, folder: Path | None, model: TaskModel, shared: Sequence[Any], form: Any) -> None:
        self.folder = folder
        self.checked = check(form)
        self.shared = [__version__, *([] if folder is None else [identity_of(model).key]), *shared]

    def cached(self, compute: Callable[[], Stored], name: str, *request: Any) -> Stored:
        """Return a finished result; compute and store it if there is none."""
        if self.folder is None:
            return compute()
        everything = json.dumps([self.shared, name, request], sort_keys=True)
        path = self.folder / f"{name}-{hashlib.sha256(everything.encode()).hexdigest()[:16]}.json"
        if path.is_file():
            state = read_json(path)
            with suppress(ValueError):  # a version with other fields wrote it
                return self.checked(state)
        result = compute()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(json.dumps(plain(result)), path)
        return result


@dataclass(frozen=True)
class Refused:
    """A method that does not work on a model (the paper's N/A)."""

    method: str  # its name, with settings that differ from the defaults
    reason: str


def with_progress(what: str, items: Sequence[Item], on_progress: OnProgress | None) -> Iterator[tuple[int, Item]]:
    """Yield items with their numbers; an item is reported as done when the next one is requested.

    Args:
        what: What is done, as the first argument of `on_progress`.
        items: The items.
        on_progress: Called with that, how many items are done and how many there are; None for nothing.
    """
    for number, item in enumerate(items):
        yield number, item
        if on_progress is not None:
            on_progress(what, number + 1, len(items))


def under(title: str, on_progress: OnProgress | None) -> OnProgress | None:
    """Prefix a title to a progress function's lines; None for None."""
    if on_progress is None:
        return None
    return lambda method, count, total: on_progress(f"{title} {method}", count, total)
