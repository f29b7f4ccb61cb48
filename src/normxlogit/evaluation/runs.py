"""Runs of many methods on one model and data set, which can be stopped and gone on with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import UnsupportedModelError
from ..explainer import Explainer
from ..methods import Method, list_methods, method_named
from .datasets import Example
from .faithfulness import Faithfulness, Protocol, checked_labels, evaluate
from .result_cache import ResultCache, fingerprint

__all__ = ["all_methods", "run_methods", "under"]

BOTH_NORMS = ("normxlogit", "input-norm")


def all_methods() -> list[Method]:
    """Return every registered method, those with a norm also with the other one."""
    found = []
    for info in list_methods():
        found.append(method_named(info.name))
        if info.name in BOTH_NORMS:
            found.append(method_named(f"{info.name}:norm_of=word_embedding"))
    return found


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
        One result for each method; None where the model lacks what the method needs (the paper's N/A).
    """
    checked_labels(explainer.model, examples)
    shared = [fingerprint(explainer), [(e.text, e.label) for e in examples], protocol, seed]
    cache = ResultCache(folder, shared, Faithfulness)
    results: list[Faithfulness | None] = []
    for method in methods:
        name, settings = method.info.name, method.settings
        state = cache.get(name, settings)
        told = state is None
        if state is None:
            try:
                (found,) = evaluate(
                    explainer, examples, [method], protocol=protocol, seed=seed, on_progress=on_progress
                )
                state = cache.put(asdict(found), name, settings)
            except UnsupportedModelError as error:
                state, told = cache.put({"missing": str(error)}, name, settings), False
        if on_progress is not None and not told:
            on_progress(method.spec, len(examples), len(examples))
        results.append(None if "missing" in state else _read(state))
    return results


def under(title: str, on_progress: Callable[[str, int, int], None] | None) -> Callable[[str, int, int], None] | None:
    """Return the same progress with a title before every line; None for none."""
    if on_progress is None:
        return None
    return lambda method, done, total: on_progress(f"{title} {method}", done, total)


def _read(state: Mapping[str, Any]) -> Faithfulness:
    tuples = {key: tuple(state[key]) for key in ("aopc_interval", "per_text", "levels")}
    curves = {key: tuple(curve) for key, curve in state["curves"].items()}
    return Faithfulness(**{**state, **tuples, "curves": curves})
