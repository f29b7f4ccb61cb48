"""Runs of many methods on one model and data set, which can be stopped and resumed."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .._version import __version__
from ..errors import NormXLogitError, UnsupportedModelError
from ..explainer import Explainer
from ..methods import Method, list_methods, method_named
from ..models.model_digest import model_digest
from ..results.files import read_json, write_text
from .datasets import Example
from .faithfulness import Answers, Faithfulness, Protocol, checked_labels, evaluate

BOTH_NORMS = ("normxlogit", "input-norm")

Progress = Callable[[str, int, int], None]
"""Called with what is running, items done and items in all."""


def all_methods() -> list[Method]:
    """Return every registered method, and those with the setting `norm_of` in both forms."""
    names = [info.name for info in list_methods()]
    variants = [f"{name}:norm_of=word_embedding" for name in BOTH_NORMS]
    return [method_named(spec) for name in names for spec in (name, *(v for v in variants if v.startswith(f"{name}:")))]


class ResultCache:
    """Results as JSON files in a folder, each written atomically and named by a digest of all that it depends on.

    Args:
        folder: The folder; None keeps nothing.
        shared: What all results depend on beside this package's version, as plain values.
        form: The class whose fields the results hold: results of a version with other fields are not read.
    """

    def __init__(self, folder: Path | None, shared: Sequence[Any], form: type) -> None:
        self.folder = folder
        self.shared = [__version__, *shared, [field.name for field in fields(form)]]

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

    def cached(self, compute: Callable[[], dict[str, Any]], name: str, *request: Any) -> dict[str, Any]:
        """Return a finished result; compute and keep it if there is none."""
        state = self.get(name, *request)
        return self.put(compute(), name, *request) if state is None else state

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
    on_progress: Progress | None = None,
) -> list[Faithfulness | None]:
    """Measure each method; finished results are read from the folder.

    Returns:
        One result for each method; None where the method does not work on the model.
    """
    run = Runs(explainer, examples, folder, protocol, seed)
    results = [run(method, on_progress) for method in methods]
    return [None if isinstance(result, Refused) else result for result in results]


class Runs:
    """Runs of methods on one model and the same texts; each distinct perturbed text is run through the model once.

    Raises:
        DataError: If a label is outside the model's.
        UnsupportedModelError: If the model does not classify.
    """

    def __init__(
        self,
        explainer: Explainer,
        examples: Sequence[Example],
        folder: Path | None = None,
        protocol: Protocol = "default",
        seed: int = 0,
        refusals: tuple[type[NormXLogitError], ...] = (UnsupportedModelError,),
    ) -> None:
        checked_labels(explainer._model, examples)
        self.explainer, self.examples, self.protocol, self.seed = explainer, examples, protocol, seed
        self.refusals = refusals
        self.shared = [model_digest(explainer._model), [(e.text, e.label) for e in examples], protocol, seed]
        self._cache = ResultCache(folder, self.shared, Faithfulness)
        self._answers = Answers(explainer)

    def __call__(self, method: Method, on_progress: Progress | None = None) -> Faithfulness | Refused:
        """Measure a method, or read its finished result."""
        last = 0

        def step(what: str, done: int, total: int) -> None:
            nonlocal last
            last = done
            if on_progress is not None:
                on_progress(what, done, total)

        def measured() -> dict[str, Any]:
            options: dict[str, Any] = {"protocol": self.protocol, "seed": self.seed, "answers": self._answers}
            try:
                (result,) = evaluate(self.explainer, self.examples, [method], on_progress=step, **options)
            except self.refusals as error:
                return {"missing": str(error)}
            return asdict(result)

        state = self._cache.cached(measured, method.info.name, method.settings)
        if last < len(self.examples):
            step(method.spec, len(self.examples), len(self.examples))
        return Refused(method.spec, state["missing"]) if "missing" in state else Faithfulness.from_state(state)


def under(title: str, on_progress: Progress | None) -> Progress | None:
    """Prefix a title to a progress function's lines; None for None."""
    if on_progress is None:
        return None
    return lambda method, done, total: on_progress(f"{title} {method}", done, total)
