"""The frontier: faithfulness against cost in forward passes, for each method and setting."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ..errors import MethodError, UnsupportedModelError
from ..explainer import Explainer
from ..inputs.batches import batches
from ..inputs.encoding import Encoding
from ..methods import Method, list_methods, method_named
from ..results.units.characters import shortened
from .datasets import Example
from .faithfulness import Faithfulness, encode, run_methods
from .report import Look, flips_table, looks_of, markdown_table, panel_figure, report, save_figure
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
"""The forward passes from which on a method is timed in `FEW_ROUNDS`."""

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
    """The cost of a method relative to a plain forward pass over the same texts.

    Attributes:
        passes: Its time in forward passes, the median over rounds.
        spread: The lowest and the highest round, in forward passes.
        rounds: How many rounds were timed.
    """

    passes: float
    spread: tuple[float, float]
    rounds: int


@dataclass(frozen=True)
class Point:
    """A method at one setting.

    Attributes:
        method: Its name, with settings that differ from the defaults.
        result: How faithful it is; or the reason why it does not work on the model.
        cost: Its cost; None if it does not work on the model.
    """

    method: str
    result: Faithfulness | Refused
    cost: Cost | None = None


class MeasuredPoint(NamedTuple):
    """A point whose method works on the model, with what was measured of it."""

    point: Point
    cost: Cost
    result: Faithfulness


Points = Sequence[Point]
"""Methods at settings."""

Panels = Mapping[str, Points]
"""The points of each panel of a figure, by its title."""

MetadataOfPanels = Mapping[str, Mapping[str, Any]]
"""What each panel was measured on, by name."""


def frontier_methods(explainer: Explainer) -> list[Method]:
    """Return the methods and settings that are compared by default."""
    # The token whose embedding is the baseline: the mask token where the tokenizer has one.
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
    timed_encodings = _timed(encode(explainer, [example.text for example in examples], "default"))
    timed_ids = [encoding.ids for encoding in timed_encodings]
    what_costs_depend_on = [environment(explainer.task_model.device), timed_ids, rounds]
    costs = ResultCache[Cost](folder, explainer.task_model, what_costs_depend_on, Cost)
    results = run_methods(
        explainer,
        examples,
        method_list,
        folder=folder,
        seed=seed,
        refusals=(UnsupportedModelError, MethodError),
        on_progress=on_progress,
    )
    points = []
    for method, result in zip(method_list, results, strict=True):
        cost = None
        if isinstance(result, Faithfulness):
            measure = partial(measure_cost, explainer, timed_encodings, method, rounds=rounds)
            cost = costs.cached(measure, f"cost-{method.info.name}", method.settings)
        points.append(Point(method.spec, result, cost))
    return points


def _timed(encodings: Sequence[Encoding]) -> list[Encoding]:
    """Return the texts that costs are measured on: of `TIMED` groups of like length the one in the middle of each."""
    by_length = sorted(encodings, key=len)
    count = min(TIMED, len(by_length))
    return [by_length[(2 * group + 1) * len(by_length) // (2 * count)] for group in range(count)]


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
    # Texts of different lengths are in one batch, unless it was found that padding changes what the model answers.
    groups = batches(encodings, model.batch_tokens, pad=not model.copy.padding.refuted)
    model_batches = [model.batch([encodings[index] for index in group], group) for group in groups]

    def forward() -> None:
        """Run plain forward passes over the texts, `REPEATS` times."""
        with torch.inference_mode():
            for _ in range(REPEATS):
                for batch in model_batches:
                    model.module(**batch.inputs)

    functions = {"forward": forward, "method": lambda: explainer(encodings, method=method)}
    first_times = in_turn(functions, rounds=1, warmup=0)  # not counted: the first call also takes the model apart
    if REPEATS * ratio(first_times["method"], first_times["forward"]) > LONG:  # "forward" is `REPEATS` passes
        rounds = min(rounds, FEW_ROUNDS)
    times = in_turn(functions, rounds=rounds, warmup=0)
    passes = [REPEATS * times_longer for times_longer in ratios(times["method"], times["forward"])]
    return Cost(statistics.median(passes), (min(passes), max(passes)), rounds)


def frontier(points: Points) -> list[Point]:
    """Return the points with a higher AOPC than every cheaper point, the cheapest first."""
    highest_aopc = float("-inf")
    undominated = []
    # Of equal costs the higher AOPC comes first, so that the lower one is not on the frontier.
    for entry in sorted(measured(points), key=lambda entry: (entry.cost.passes, -entry.result.aopc)):
        if entry.result.aopc > highest_aopc:
            highest_aopc = entry.result.aopc
            undominated.append(entry.point)
    return undominated


def measured(points: Points) -> list[MeasuredPoint]:
    """Return the points that were measured, the cheapest first."""
    entries = [
        MeasuredPoint(point, point.cost, point.result)
        for point in points
        if point.cost is not None and isinstance(point.result, Faithfulness)
    ]
    return sorted(entries, key=lambda entry: entry.cost.passes)


def frontier_table(points: Points) -> str:
    """Return a Markdown table, the cheapest first; the AOPC of points on the frontier is in bold."""
    points_on_frontier = frontier(points)
    columns = ["method", "forward passes", "AOPC ↑", "95% interval", "sufficiency ↓", "95% interval"]
    rows = []
    for point, cost, result in measured(points):
        aopc = f"{result.aopc:.3f}"
        rows.append(
            [
                point.method,
                f"{cost.passes:.3g}",
                f"**{aopc}**" if point in points_on_frontier else aopc,
                _interval(result.aopc_interval),
                f"{result.sufficiency:.3f}",
                _interval(result.sufficiency_interval),
            ]
        )
    for point in points:
        if isinstance(point.result, Refused):
            reason = point.result.reason.replace("|", "/")  # which would end the cell
            rows.append([point.method, f"N/A: {reason}", "", "", "", ""])
    return markdown_table(columns, rows)


def frontier_figure(panels: Panels) -> "PlotFigure":
    """Draw AOPC with its interval against cost on a logarithmic axis; the line joins what no other setting beats."""
    from matplotlib.ticker import LogLocator

    looks = looks_of(point.method for points in panels.values() for point in points)
    with panel_figure(len(panels), 1) as (figure, all_axes):
        figure.set_size_inches(WIDTH, PANEL_HEIGHT * len(panels) + NAME_HEIGHT * sum(map(len, panels.values())))
        for axes, (title, points) in zip(all_axes, panels.items(), strict=True):
            _draw_points(axes, points, looks)
            axes.set(xscale="log", xlabel="cost, forward passes", ylabel="AOPC (95% interval)", title=title)
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
            axes.grid(alpha=0.3, which="both")
    return figure


def _draw_points(axes: Any, points: Points, looks: Mapping[str, Look]) -> None:
    """Draw the points of a panel with their intervals, the line of the frontier, and a legend, the best first.

    Args:
        axes: Matplotlib's axes of the panel.
        points: The methods of the panel; those that were refused are left out.
        looks: The look of each method, by its name with settings.
    """
    entries = measured(points)
    if not entries:
        return
    line = [(cost.passes, result.aopc) for _, cost, result in measured(frontier(points))]
    axes.step(*np.transpose(line), where="post", color="0.6", linewidth=1.2, zorder=0)
    for point, cost, result in sorted(entries, key=lambda entry: -entry.result.aopc):
        low, high = result.aopc_interval
        errors = [[result.aopc - low], [high - result.aopc]]  # matplotlib's: the lengths of the bars, down and up
        look = looks[point.method]
        name = f"{result.aopc:.3f}  {shortened(point.method, NAME)}"
        axes.errorbar(
            [cost.passes], [result.aopc], errors, fmt=look.marker, color=look.color, elinewidth=0.7, label=name
        )
    axes.legend(title="AOPC and method", loc="upper center", bbox_to_anchor=(0.45, -0.22), fontsize=8)


def frontier_text(panels: Panels, metadata: MetadataOfPanels) -> str:
    """Return the tables of all panels in Markdown, each with its title and metadata."""
    paragraphs = []
    for title, points in panels.items():
        facts = ", ".join(f"{name} {value}" for name, value in metadata[title].items())
        paragraphs += [f"{title}: {facts}\n", frontier_table(points)]
        if flips := flips_table([entry.result for entry in measured(points)]):
            paragraphs.append(flips)
    return "\n".join([*paragraphs, ""])


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
