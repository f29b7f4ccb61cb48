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
    """Results as JSON files in a folder, each written atomically and named by a digest of all that it depends on.

    Args:
        folder: The folder; None to keep nothing.
        model: The model, by whose identity results are matched to it.
        shared: What else all results depend on, as values of JSON.
        result_type: The type of a result, which is read from a file.
    """

    def __init__(self, folder: Path | None, model: TaskModel, shared: Sequence[Any], result_type: Any) -> None:
        self._folder = folder
        self._checked_result = check(result_type)
        if folder is not None:  # the identity costs a pass, and reading all weights
            self._shared = [__version__, identity_of(model).key, *shared]

    def cached(self, compute: Callable[[], Stored], name: str, *request: Any) -> Stored:
        """Return a finished result; compute and store it if there is none.

        Args:
            compute: Computes the result.
            name: The beginning of the file's name.
            *request: What this result depends on beside what all do, as values of JSON.
        """
        if self._folder is None:
            return compute()
        dependencies = json.dumps([self._shared, name, request], sort_keys=True)
        digest = hashlib.sha256(dependencies.encode()).hexdigest()[:16]
        path = self._folder / f"{name}-{digest}.json"
        if path.is_file():
            state = read_json(path)
            with suppress(ValueError):  # a version with other fields wrote it
                return self._checked_result(state)
        result = compute()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(json.dumps(plain(result)), path)
        return result


@dataclass(frozen=True)
class Refused:
    """A method that does not work on a model (the paper's N/A)."""

    method: str  # its name, with settings that differ from the defaults
    reason: str


def with_progress(work: str, items: Sequence[Item], on_progress: OnProgress | None) -> Iterator[tuple[int, Item]]:
    """Yield items with their numbers; an item is reported as done when the next one is requested.

    Args:
        work: The name of the work, the first argument of `on_progress`.
        items: The items.
        on_progress: Called with that, how many items are done and how many there are; None for nothing.
    """
    for number, item in enumerate(items):
        yield number, item
        if on_progress is not None:
            on_progress(work, number + 1, len(items))


def under(title: str, on_progress: OnProgress | None) -> OnProgress | None:
    """Prefix a title to a progress function's lines; None for None."""
    if on_progress is None:
        return None
    return lambda method, count, total: on_progress(f"{title} {method}", count, total)
