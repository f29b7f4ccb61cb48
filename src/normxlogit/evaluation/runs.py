"""Runs of many methods on one model and data set, which can be stopped and gone on with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import NormXLogitError, UnsupportedModelError
from ..explainer import Explainer
from ..methods import Method, list_methods, method_named
from ..models.model_digest import model_digest
from .datasets import Example
from .faithfulness import Answers, Faithfulness, Protocol, checked_labels, evaluate
from .result_cache import ResultCache

__all__ = ["Refused", "Runs", "all_methods", "run_methods", "under"]

BOTH_NORMS = ("normxlogit", "input-norm")


def all_methods() -> list[Method]:
    """Return every registered method, those with a norm also with the other one."""
    found = []
    for info in list_methods():
        found.append(method_named(info.name))
        if info.name in BOTH_NORMS:
            found.append(method_named(f"{info.name}:norm_of=word_embedding"))
    return found


@dataclass(frozen=True)
class Refused:
    """A method that a model lacks something for (the paper's N/A).

    Attributes:
        method: Its name, with settings that differ from the defaults.
        reason: What is missing.
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
    on_progress: Callable[[str, int, int], None] | None = None,
) -> list[Faithfulness | None]:
    """Measure each method; results that are in the folder already are read from there.

    Args:
        explainer: The model.
        examples: Labelled texts.
        methods: What to measure.
        folder: Where finished results are kept, each written whole or not at all; None keeps nothing.
        protocol: See `faithfulness.evaluate`.
        seed: Of the bootstrap.
        on_progress: Called with the method, texts done and texts in all.

    Returns:
        One result for each method; None where the model lacks what the method needs.
    """
    run = Runs(explainer, examples, folder, protocol, seed)
    found = [run(method, on_progress) for method in methods]
    return [None if isinstance(one, Refused) else one for one in found]


class Runs:
    """Runs of methods on one model and the same texts; each distinct perturbed text is asked once in all of them.

    Args:
        explainer: The model.
        examples: Labelled texts.
        folder: Where finished results are kept; None keeps nothing.
        protocol: See `faithfulness.evaluate`.
        seed: Of the bootstrap.
        refusals: Errors by which a method says that the model lacks what it needs.

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

    def __call__(
        self, method: Method, on_progress: Callable[[str, int, int], None] | None = None
    ) -> Faithfulness | Refused:
        """Measure a method, or read what was measured."""
        name, settings = method.info.name, method.settings
        state = self._cache.get(name, settings)
        told = state is None
        if state is None:
            try:
                (found,) = evaluate(
                    self.explainer,
                    self.examples,
                    [method],
                    protocol=self.protocol,
                    seed=self.seed,
                    answers=self._answers,
                    on_progress=on_progress,
                )
                state = self._cache.put(asdict(found), name, settings)
            except self.refusals as error:
                state, told = self._cache.put({"missing": str(error)}, name, settings), False
        if on_progress is not None and not told:
            on_progress(method.spec, len(self.examples), len(self.examples))
        return Refused(method.spec, state["missing"]) if "missing" in state else _read(state)


def under(title: str, on_progress: Callable[[str, int, int], None] | None) -> Callable[[str, int, int], None] | None:
    """Return the same progress with a title before every line; None for none."""
    if on_progress is None:
        return None
    return lambda method, done, total: on_progress(f"{title} {method}", done, total)


def _read(state: Mapping[str, Any]) -> Faithfulness:
    tuples = {key: tuple(state[key]) for key in ("aopc_interval", "sufficiency_interval", "per_text", "levels")}
    curves = {key: tuple(curve) for key, curve in state["curves"].items()}
    return Faithfulness(**{**state, **tuples, "curves": curves})
