"""The frontier as a Markdown table, JSON and a figure."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..render.describe import shortened
from .faithfulness import Faithfulness
from .frontier import Cost, Point, frontier
from .report import flips_table, markdown_table, report
from .timing import environment

if TYPE_CHECKING:
    from ..render.figure import PlotFigure

LABELLED = 8
"""Most methods that a figure names: those on the frontier, then the most faithful."""

PHONE = 4.2
"""Width of the figure in inches, that of a phone, so that its text is legible there."""

PANEL = 4.2
"""Height of a panel in inches, with the names below it."""

NAME = 56
"""Most characters of a name."""


def frontier_table(points: Sequence[Point]) -> str:
    """Return a Markdown table, the cheapest first; the AOPC of points on the frontier is in bold."""
    best = frontier(points)
    columns = ["method", "forward passes", "AOPC ↑", "95% interval", "sufficiency ↓", "95% interval"]
    rows = []
    for point, cost, result in _measured(points):
        aopc = f"**{result.aopc:.3f}**" if point in best else f"{result.aopc:.3f}"
        figures = [aopc, _interval(result.aopc_interval), f"{result.sufficiency:.3f}"]
        rows.append([point.method, f"{cost.passes:.3g}", *figures, _interval(result.sufficiency_interval)])
    rows += [[p.method, f"N/A: {p.reason.replace('|', '/')}", "", "", "", ""] for p in points if p.reason]
    return markdown_table(columns, rows)


def frontier_figure(panels: Mapping[str, Sequence[Point]]) -> "PlotFigure":
    """Draw AOPC with its interval against cost on a logarithmic axis.

    A colour is a method, a marker one of its settings; the line joins what no other setting beats. At most
    eight points of a panel are named, below it; the others are grey.

    Returns:
        A matplotlib figure.

    Raises:
        DataError: If matplotlib is missing.
    """
    from ..render.figure import panel_figure

    looks = _looks([p.method for points in panels.values() for p in points])
    with panel_figure(len(panels), 1) as (figure, grid):
        figure.set_size_inches(PHONE, PANEL * len(panels))
        for axes, (title, points) in zip(grid, panels.items(), strict=True):
            _draw_points(axes, points, looks)
            axes.set_title(title)
    return figure


def _draw_points(axes: Any, points: Sequence[Point], looks: Mapping[str, tuple[Any, str]]) -> None:
    """Draw one panel, with the names of some points below it."""
    from matplotlib.ticker import LogLocator

    best = frontier(points)
    line = [(cost.passes, result.aopc) for _, cost, result in _measured(best)]
    if line:
        axes.step(*np.transpose(line), where="post", color="0.6", linewidth=1.2, zorder=0)
    measured = _measured(points)
    ranked = sorted(measured, key=lambda entry: (entry[0] not in best, -entry[2].aopc))
    named_points = sorted(ranked[:LABELLED], key=lambda entry: -entry[2].aopc)
    for point, cost, result in [*named_points, *ranked[LABELLED:]]:
        is_named = (point, cost, result) in named_points
        color, marker = looks[point.method] if is_named else ("0.7", ".")
        low, high = result.aopc_interval
        errors = [[result.aopc - low], [high - result.aopc]]
        axes.errorbar(
            [cost.passes],
            [result.aopc],
            errors,
            fmt=marker,
            color=color,
            markersize=6,
            elinewidth=0.7,
            alpha=0.9,
            label=f"{result.aopc:.3f}  {shortened(point.method, NAME)}" if is_named else None,
        )
    listed = (
        f" ({len(named_points)} of {len(measured)}; the others are grey)" if len(named_points) < len(measured) else ""
    )
    if named_points:
        axes.legend(
            title=f"AOPC and method{listed}",
            alignment="left",
            loc="upper center",
            bbox_to_anchor=(0.45, -0.17),
            fontsize=8,
            title_fontsize=8,
            labelspacing=0.25,
            handletextpad=0.2,
        )
    axes.set(xscale="log", xlabel="cost, forward passes", ylabel="AOPC")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.grid(alpha=0.3, which="both")


def frontier_text(panels: Mapping[str, Sequence[Point]], metadata: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the tables of all panels in Markdown, each with its title and metadata."""
    return "\n".join(
        f"{title}: {', '.join(f'{key} {value}' for key, value in metadata[title].items())}\n\n{frontier_table(points)}"
        f"\n{_flips(points)}"
        for title, points in panels.items()
    )


def write_frontier(
    folder: Path | None,
    panels: Mapping[str, Sequence[Point]],
    metadata: Mapping[str, Mapping[str, Any]],
    device: torch.device,
) -> str:
    """Return the report; write `frontier.json`, `frontier.md` and the figure into the folder, if any."""
    listed = [{"title": title, "metadata": metadata[title], "points": points} for title, points in panels.items()]
    text = frontier_text(panels, metadata)
    if folder is not None:
        from ..render.figure import save_figure

        report({}, text, folder, "frontier", environment=environment(device), panels=listed)
        save_figure(frontier_figure(panels), folder / "frontier")
    return text


def _flips(points: Sequence[Point]) -> str:
    table = flips_table([result for _, _, result in _measured(points)])
    return f"\n{table}" if table else ""


def _measured(points: Sequence[Point]) -> list[tuple[Point, Cost, Faithfulness]]:
    """Return the points that were measured, the cheapest first."""
    measured = [(p, p.cost, p.result) for p in points if p.cost is not None and p.result is not None]
    return sorted(measured, key=lambda entry: entry[1].passes)


def _interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"


def _looks(methods: Sequence[str]) -> dict[str, tuple[Any, str]]:
    """Return the colour and the marker of each method: settings of one method share its colour, not the marker."""
    from ..render.figure import MARKERS, SERIES

    families = dict.fromkeys(method.partition(":")[0] for method in methods)
    colors = {family: SERIES[i % len(SERIES)] for i, family in enumerate(families)}
    markers = {color: cycle(MARKERS) for color in SERIES}
    color_and_marker: dict[str, tuple[Any, str]] = {}
    for method in dict.fromkeys(methods):
        color = colors[method.partition(":")[0]]
        color_and_marker[method] = (color, next(markers[color]))
    return color_and_marker
