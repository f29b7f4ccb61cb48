"""The frontier: faithfulness against cost in forward passes, for each method and setting."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..errors import MethodError, UnsupportedModelError
from ..explainer import Explainer
from ..inputs.encoding import Encoding, batches
from ..methods import Method, list_methods, method_named
from .datasets import Example
from .faithfulness import Faithfulness, encode, run_methods
from .runs import OnProgress, Refused, ResultCache
from .timing import environment, in_turn, ratio, ratios

TIMED = 16
"""Texts that costs are measured on."""

ROUNDS = 9
"""Counted rounds of a method's timing."""

FEW_ROUNDS = 3
"""Counted rounds of a method that takes more than `LONG` forward passes."""

LONG = 20.0

REPEATS = 5
"""Plain forward passes in a round; a single one would be too short to time against most methods."""


@dataclass(frozen=True)
class Cost:
    """The cost of a method relative to a plain forward pass over the same texts."""

    passes: float  # its time in forward passes, the median over rounds
    spread: tuple[float, float]  # the lowest and the highest round
    rounds: int


@dataclass(frozen=True)
class Point:
    """A method at one setting."""

    method: str  # its name, with settings that differ from the defaults
    result: Faithfulness | Refused  # how faithful it is; or the reason why it does not work on the model
    cost: Cost | None = None  # its cost; None if it does not work on the model


def frontier_methods(explainer: Explainer) -> list[Method]:
    """Return the methods and settings that are compared by default."""
    filler = "pad" if explainer.task_model.tokenizer.mask_token_id is None else "mask"
    names = [
        "random",
        "input-norm",
        "logat",
        "normxlogit",
        "frozen-gradient:read_at=-1",
        "frozen-gradient:read_at=middle",
        "frozen-gradient:read_at=all",
        "frozen-gradient",
        f"frozen-gradient:baseline={filler}",
        f"frozen-gradient:point=0.3,baseline={filler}",
        f"frozen-gradient:point=0.5,baseline={filler}",
        "gradient-x-input",
        "decompx",
        "integrated-gradients:steps=20",
        f"integrated-gradients:steps=20,baseline={filler}",
        "integrated-gradients",
        f"integrated-gradients:baseline={filler}",
        "occlusion",
        "lime:samples=32",
        "lime",
        "kernel-shap",
    ]
    present = {method.name for method in list_methods()}  # a wing of methods may have been deleted
    return list(dict.fromkeys(method_named(name) for name in names if name.partition(":")[0] in present))


def run_frontier(
    explainer: Explainer,
    examples: Sequence[Example],
    methods: Sequence[Method] = (),
    *,
    folder: Path | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
    on_progress: OnProgress | None = None,
) -> list[Point]:
    """Measure faithfulness and cost of each method; finished results are read from the folder."""
    method_list = methods or frontier_methods(explainer)
    timed_encodings = _spread_out(encode(explainer, [e.text for e in examples], "default"))
    what_costs_depend_on = [environment(explainer.task_model.device), [e.ids for e in timed_encodings], rounds]
    costs = ResultCache[Cost](folder, explainer.task_model, what_costs_depend_on, Cost)
    refusals = (UnsupportedModelError, MethodError)
    options: dict[str, Any] = {"folder": folder, "seed": seed, "refusals": refusals, "on_progress": on_progress}
    points = []
    for method, result in zip(method_list, run_methods(explainer, examples, method_list, **options), strict=True):
        if isinstance(result, Refused):
            points.append(Point(method.spec, result))
        else:
            work = partial(measure_cost, explainer, timed_encodings, method, rounds=rounds)
            cost = costs.cached(work, f"cost-{method.info.name}", method.settings)
            points.append(Point(method.spec, result, cost))
    return points


def measure_cost(explainer: Explainer, encodings: Sequence[Encoding], method: Method, *, rounds: int) -> Cost:
    """Time a method in turn with plain forward passes over the same texts, in the same batches."""
    model, encodings = explainer.task_model, list(encodings)
    groups = batches(encodings, model.batch_tokens, pad=not model.copy.padding.refuted)
    model_batches = [model.batch([encodings[i] for i in group], group) for group in groups]

    def forward() -> None:
        with torch.inference_mode():
            for _ in range(REPEATS):
                for batch in model_batches:
                    model.module(**batch.inputs)

    functions = {"forward": forward, "method": lambda: explainer(encodings, method=method)}
    first_times = in_turn(functions, rounds=1, warmup=0)  # the first call also takes the model apart
    if ratio(first_times["method"], first_times["forward"]) * REPEATS > LONG:
        rounds = min(rounds, FEW_ROUNDS)
    times = in_turn(functions, rounds=rounds, warmup=0)
    passes = [REPEATS * cost for cost in ratios(times["method"], times["forward"])]
    return Cost(statistics.median(passes), (min(passes), max(passes)), rounds)


def frontier(points: Sequence[Point]) -> list[Point]:
    """Return the points with a higher AOPC than every cheaper point, the cheapest first."""
    best, undominated = float("-inf"), []
    for point, _, result in sorted(measured(points), key=lambda entry: (entry[1].passes, -entry[2].aopc)):
        if result.aopc > best:
            best = result.aopc
            undominated.append(point)
    return undominated


def measured(points: Sequence[Point]) -> list[tuple[Point, Cost, Faithfulness]]:
    """Return the points that were measured, the cheapest first."""
    found = [(p, p.cost, p.result) for p in points if p.cost is not None and isinstance(p.result, Faithfulness)]
    return sorted(found, key=lambda entry: entry[1].passes)


def _spread_out(encodings: Sequence[Encoding]) -> list[Encoding]:
    """Return a few texts, evenly spaced in the order of their lengths."""
    order = sorted(encodings, key=len)
    count = min(TIMED, len(order))
    return [order[(2 * i + 1) * len(order) // (2 * count)] for i in range(count)]
