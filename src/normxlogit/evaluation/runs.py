"""Runs of many cells (one method on one model and data set) that can be stopped and gone on with."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ..datasets.glue import Example
from ..errors import DataError, MethodError, UnsupportedModelError
from ..explainer import Explainer
from ..methods.registry import create, list_methods
from .faithfulness import Faithfulness, Protocol, checked_labels, evaluate

__all__ = ["Cell", "all_methods", "parse_method", "run_cells"]

Cell = tuple[str, dict[str, Any]]
"""A method's name and the settings that differ from its defaults."""

BOTH_NORMS = ("normxlogit", "input-norm")


def parse_method(text: str) -> Cell:
    """Read "name" or "name:setting=value,setting=value"; values are JSON where they can be, else strings.

    Raises:
        MethodError: If the method or a setting does not exist.
    """
    name, _, rest = text.partition(":")
    settings: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise MethodError(f"{text!r}: write settings as name:setting=value")
        try:
            settings[key.strip()] = json.loads(value)
        except ValueError:
            settings[key.strip()] = value.strip()
    create(name, settings)
    return name, settings


def all_methods() -> list[Cell]:
    """Every registered method, those with a norm also with the other one."""
    cells: list[Cell] = []
    for info in list_methods():
        cells.append((info.name, {}))
        if info.name in BOTH_NORMS:
            cells.append((info.name, {"norm_of": "word_embedding"}))
    return cells


def run_cells(
    explainer: Explainer,
    examples: Sequence[Example],
    methods: Sequence[Cell],
    *,
    folder: Path | None = None,
    protocol: Protocol = "default",
    seed: int = 0,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> list[Faithfulness | None]:
    """Measure each method; cells that are in the folder already are read from there.

    Args:
        explainer: The model.
        examples: Labelled texts.
        methods: What to measure.
        folder: Where finished cells are kept, each written whole or not at all; None keeps nothing.
        protocol: See `faithfulness.evaluate`.
        seed: Of the bootstrap.
        on_progress: Called with the method, texts done and texts in all.

    Returns:
        One result for each method; None where the model lacks what the method needs (the paper's N/A).
    """
    checked_labels(explainer.model, examples)
    results: list[Faithfulness | None] = []
    shared = [fingerprint(explainer), [(e.text, e.label) for e in examples], protocol, seed]
    for name, settings in methods:
        key = hashlib.sha256(json.dumps([*shared, name, settings], sort_keys=True).encode()).hexdigest()[:16]
        path = None if folder is None else folder / f"{name}-{key}.json"
        if path is not None and path.is_file():
            results.append(_read(path))
            if on_progress is not None:
                on_progress(name, len(examples), len(examples))
            continue
        found: Faithfulness | None = None
        try:
            (found,) = evaluate(
                explainer, examples, [(name, settings)], protocol=protocol, seed=seed, on_progress=on_progress
            )
        except UnsupportedModelError:
            if on_progress is not None:
                on_progress(name, len(examples), len(examples))
        results.append(found)
        if path is not None:
            _write(path, found)
    return results


def fingerprint(explainer: Explainer) -> str:
    """A digest of the weights, the same however many threads there are."""
    digest = hashlib.sha256()
    for name, weight in explainer.model.shadow.named_parameters():
        digest.update(name.encode())
        if weight.device.type != "meta":
            digest.update(weight.detach().float().cpu().numpy().tobytes())  # float: also of quantised weights
    return digest.hexdigest()


def _write(path: Path, result: Faithfulness | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(None if result is None else asdict(result)), encoding="utf-8")
    os.replace(part, path)


def _read(path: Path) -> Faithfulness | None:
    state = json.loads(path.read_text(encoding="utf-8"))
    if state is None:
        return None
    if set(state) != {f.name for f in fields(Faithfulness)}:
        raise DataError(f"{path}: written by another version; remove it to measure the cell anew")
    state["curves"] = {key: tuple(curve) for key, curve in state["curves"].items()}
    for key in ("aopc_interval", "per_text", "levels"):
        state[key] = tuple(state[key])
    return Faithfulness(**state)
