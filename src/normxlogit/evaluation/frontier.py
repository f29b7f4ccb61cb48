"""The frontier: faithfulness against cost in forward passes, for each method and setting."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import MethodError, UnsupportedModelError
from ..explainer import Explainer
from ..inputs.encoding import Encoding, batches
from ..methods import Method, list_methods, method_named
from ..results.units.characters import shortened
from .datasets import Example
from .faithfulness import Faithfulness, encode, run_methods
from .report import flips_table, looks_of, markdown_table, panel_figure, report, save_figure
from .runs import OnProgress, Refused, ResultCache
from .timing import environment, in_turn, ratio, ratios

if TYPE_CHECKING:
    from ..plots.figure import PlotFigure

TIMED = 16
"""Texts that costs are measured on."""

ROUNDS = 9
"""Counted rounds of a method's timing."""

FEW_ROUNDS = 3
"""Counted rounds of a method that takes more than `LONG` forward passes."""

LONG = 20.0

REPEATS = 5
"""Plain forward passes in a round; a single one would be too short to time against most methods."""

WIDTH = 4.2
"""Width of the figure in inches, that of a phone, so that its text is legible there."""

PANEL_HEIGHT = 2.6
"""The height of a panel, in inches."""

NAME_HEIGHT = 0.17
"""The height of the name of a method below a panel, in inches."""

NAME = 56
"""Most characters of a name."""


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


Points = Sequence[Point]
"""Methods at settings."""

Panels = Mapping[str, Points]
"""The points of each panel of a figure, by its title."""

MetadataOfPanels = Mapping[str, Mapping[str, Any]]
"""What each panel was measured on, by name."""


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
    """Measure faithfulness and cost of each method; finished results are read from the folder.

    Args:
        explainer: The model.
        examples: The labelled texts.
        methods: The methods, with their settings.
        folder: Where results are kept; None for nowhere.
        seed: Of the bootstrap of intervals.
        rounds: How often each method is timed.
        on_progress: Called with the steps; None for none.
    """
    method_list = methods or frontier_methods(explainer)
    by_length = sorted(encode(explainer, [e.text for e in examples], "default"), key=len)
    count = min(TIMED, len(by_length))
    timed_encodings = [by_length[(2 * i + 1) * len(by_length) // (2 * count)] for i in range(count)]  # evenly spaced
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
    """Time a method in turn with plain forward passes over the same texts, in the same batches.

    Args:
        explainer: The model.
        encodings: The texts.
        method: The method.
        rounds: How often both sides are timed.
    """
    model = explainer.task_model
    encodings = list(encodings)
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


def frontier(points: Points) -> list[Point]:
    """Return the points with a higher AOPC than every cheaper point, the cheapest first."""
    best = float("-inf")
    undominated = []
    for point, _, result in sorted(measured(points), key=lambda entry: (entry[1].passes, -entry[2].aopc)):
        if result.aopc > best:
            best = result.aopc
            undominated.append(point)
    return undominated


def measured(points: Points) -> list[tuple[Point, Cost, Faithfulness]]:
    """Return the points that were measured, the cheapest first."""
    entries = [(p, p.cost, p.result) for p in points if p.cost is not None and isinstance(p.result, Faithfulness)]
    return sorted(entries, key=lambda entry: entry[1].passes)


def frontier_table(points: Points) -> str:
    """Return a Markdown table, the cheapest first; the AOPC of points on the frontier is in bold."""
    best = frontier(points)
    columns = ["method", "forward passes", "AOPC ↑", "95% interval", "sufficiency ↓", "95% interval"]
    rows = []
    for point, cost, result in measured(points):
        aopc = f"**{result.aopc:.3f}**" if point in best else f"{result.aopc:.3f}"
        figures = [aopc, _interval(result.aopc_interval), f"{result.sufficiency:.3f}"]
        rows.append([point.method, f"{cost.passes:.3g}", *figures, _interval(result.sufficiency_interval)])
    refused = [p.result for p in points if isinstance(p.result, Refused)]
    rows += [[r.method, f"N/A: {r.reason.replace('|', '/')}", "", "", "", ""] for r in refused]
    return markdown_table(columns, rows)


def frontier_figure(panels: Panels) -> "PlotFigure":
    """Draw AOPC with its interval against cost on a logarithmic axis; the line joins what no other setting beats."""
    from matplotlib.ticker import LogLocator

    looks = looks_of(point.method for points in panels.values() for point in points)
    with panel_figure(len(panels), 1) as (figure, grid):
        figure.set_size_inches(WIDTH, PANEL_HEIGHT * len(panels) + NAME_HEIGHT * sum(map(len, panels.values())))
        for axes, (title, points) in zip(grid, panels.items(), strict=True):
            if line := [(cost.passes, result.aopc) for _, cost, result in measured(frontier(points))]:
                axes.step(*np.transpose(line), where="post", color="0.6", linewidth=1.2, zorder=0)
            for point, cost, result in sorted(measured(points), key=lambda entry: -entry[2].aopc):
                look, (low, high) = looks[point.method], result.aopc_interval
                errors = [[result.aopc - low], [high - result.aopc]]
                name = f"{result.aopc:.3f}  {shortened(point.method, NAME)}"
                style = {"fmt": look.marker, "color": look.color, "elinewidth": 0.7}
                axes.errorbar([cost.passes], [result.aopc], errors, **style, label=name)
            if line:
                axes.legend(title="AOPC and method", loc="upper center", bbox_to_anchor=(0.45, -0.22), fontsize=8)
            axes.set(xscale="log", xlabel="cost, forward passes", ylabel="AOPC (95% interval)", title=title)
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
            axes.grid(alpha=0.3, which="both")
    return figure


def frontier_text(panels: Panels, metadata: MetadataOfPanels) -> str:
    """Return the tables of all panels in Markdown, each with its title and metadata."""
    text = []
    for title, points in panels.items():
        flips = flips_table([result for _, _, result in measured(points)])
        text.append(f"{title}: {', '.join(f'{key} {value}' for key, value in metadata[title].items())}\n")
        text.append(frontier_table(points))
        if flips:
            text.append(flips)
    return "\n".join([*text, ""])


def write_frontier(
    folder: Path | None,
    panels: Panels,
    metadata: MetadataOfPanels,
    device: torch.device,
) -> str:
    """Return the report; write `frontier.json`, `frontier.md` and the figure into the folder, if any.

    Args:
        folder: The folder; None to write nothing.
        panels: The points of each panel, by its title.
        metadata: What a report says of each panel, by its title.
        device: What the times were measured on.
    """
    listed = [{"title": title, "metadata": metadata[title], "points": points} for title, points in panels.items()]
    text = frontier_text(panels, metadata)
    if folder is not None:
        report({}, text, folder, "frontier", environment=environment(device), panels=listed)
        save_figure(frontier_figure(panels), folder / "frontier")
    return text


def _interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"
