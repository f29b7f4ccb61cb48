"""Runs of many methods on one model and data set, which can be stopped and resumed."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from .._version import __version__
from ..errors import NormXLogitError, UnsupportedModelError
from ..explainer import Explainer
from ..long_runs.model_identity import identity_of
from ..methods import Method
from ..model.task_model import TaskModel
from ..results.storage.files import read_json, write_text
from ..results.storage.schema import check, plain
from .datasets import Example
from .faithfulness import Answers, Faithfulness, Protocol, checked_labels, encode, evaluate

Item = TypeVar("Item")

Stored = TypeVar("Stored")
"""The type of a stored result."""

OnProgress = Callable[[str, int, int], None]
"""Called with the name of the work, the number of finished items and of all items."""


class ResultCache(Generic[Stored]):
    """Results as JSON files in a folder, each written atomically and named by a digest of all that it depends on.

    Args:
        folder: The folder; None keeps nothing.
        model: The model that is measured.
        shared: Further plain values that all results depend on, beside the model and this package's version.
        form: The type of a result: a dataclass, or what else `schema.check` knows. A file of another form, as a version
            with other fields wrote it, counts as none.
    """

    def __init__(self, folder: Path | None, model: TaskModel, shared: Sequence[Any], form: Any) -> None:
        self.folder, self.checked = folder, check(form)
        self.shared = [__version__, *([] if folder is None else [identity_of(model).key]), *shared]

    def get(self, name: str, *request: Any) -> Stored | None:
        """Return a finished result, None if there is none.

        Args:
            name: The name of the file, without the digest.
            *request: Plain values that this result depends on.

        Raises:
            DataError: If its file is not JSON.
        """
        path = self._path(name, request)
        if path is None or not path.is_file():
            return None
        state = read_json(path)
        try:
            result: Stored = self.checked(state)
        except ValueError:  # a version with other fields wrote it
            return None
        return result

    def put(self, result: Stored, name: str, *request: Any) -> Stored:
        """Store a result, and return it."""
        path = self._path(name, request)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(json.dumps(plain(result)), path)
        return result

    def cached(self, compute: Callable[[], Stored], name: str, *request: Any) -> Stored:
        """Return a finished result; compute and store it if there is none."""
        result = self.get(name, *request)
        return self.put(compute(), name, *request) if result is None else result

    def _path(self, name: str, request: Sequence[Any]) -> Path | None:
        if self.folder is None:
            return None
        everything = json.dumps([self.shared, name, request], sort_keys=True)
        return self.folder / f"{name}-{hashlib.sha256(everything.encode()).hexdigest()[:16]}.json"


@dataclass(frozen=True)
class Refused:
    """A method that does not work on a model (the paper's N/A).

    Attributes:
        method: Its name, with settings that differ from the defaults.
    """

    method: str
    reason: str


def run_methods(
    explainer: Explainer,
    examples: Sequence[Example],
    methods: Sequence[Method],
    *,
    folder: Path | None = None,
    protocol: Protocol = "default",
    seed: int = 0,
    refusals: tuple[type[NormXLogitError], ...] = (UnsupportedModelError,),
    on_progress: OnProgress | None = None,
) -> Iterator[Faithfulness | Refused]:
    """Measure methods on the same texts; each distinct perturbed text is run through the model once.

    Args:
        explainer: The model.
        examples: Labelled texts.
        methods: The methods.
        folder: Where finished results are kept, so that a stopped run can be resumed; None keeps nothing.
        protocol: As in `faithfulness.evaluate`.
        seed: Seed of the bootstrap.
        refusals: Errors which say that a method does not work on the model.
        on_progress: Called with the method, texts done and texts in all.

    Yields:
        One result for each method.

    Raises:
        DataError: If a label is outside the model's.
        UnsupportedModelError: If the model does not classify.
    """
    checked_labels(explainer.task_model, examples)
    results_depend_on = [[(e.text, e.label) for e in examples], protocol, seed]
    cache = ResultCache[Faithfulness | Refused](folder, explainer.task_model, results_depend_on, Faithfulness | Refused)
    answers = lru_cache(lambda: Answers.of(explainer, encode(explainer, [e.text for e in examples], protocol)))
    on_unfinished = unfinished(on_progress)

    def measure_method(method: Method) -> Faithfulness | Refused:
        options: dict[str, Any] = {
            "protocol": protocol,
            "seed": seed,
            "answers": answers(),
            "on_progress": on_unfinished,
        }
        try:
            (result,) = evaluate(explainer, examples, [method], **options)
        except refusals as error:
            return Refused(method.spec, str(error))
        return result

    for method in methods:
        result = cache.cached(partial(measure_method, method), method.info.name, method.settings)
        if on_progress is not None:
            on_progress(method.spec, len(examples), len(examples))
        yield result


def with_progress(what: str, items: Sequence[Item], on_progress: OnProgress | None) -> Iterator[tuple[int, Item]]:
    """Yield items with their numbers; an item is reported as done when the next one is requested."""
    for number, item in enumerate(items):
        yield number, item
        if on_progress is not None:
            on_progress(what, number + 1, len(items))


def unfinished(on_progress: OnProgress | None) -> OnProgress:
    """Return a progress function that drops the last step, which is reported when the result is stored."""

    def step(what: str, done: int, total: int) -> None:
        if on_progress is not None and done < total:
            on_progress(what, done, total)

    return step


def under(title: str, on_progress: OnProgress | None) -> OnProgress | None:
    """Prefix a title to a progress function's lines; None for None."""
    if on_progress is None:
        return None
    return lambda method, done, total: on_progress(f"{title} {method}", done, total)
