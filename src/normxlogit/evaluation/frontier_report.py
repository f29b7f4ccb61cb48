"""The frontier as a Markdown table, JSON and a figure."""

from collections.abc import Mapping, Sequence
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..render.describe import shortened
from .frontier import Point, frontier, measured
from .report import flips_table, markdown_table, report
from .runs import Refused
from .timing import environment

if TYPE_CHECKING:
    from ..render.figure import PlotFigure

WIDTH = 4.2
"""Width of the figure in inches, that of a phone, so that its text is legible there."""

PANEL, LINE = 2.6, 0.17
"""Height of a panel in inches, and of the name of each method below it."""

NAME = 56
"""Most characters of a name."""


def frontier_table(points: Sequence[Point]) -> str:
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


def frontier_figure(panels: Mapping[str, Sequence[Point]]) -> "PlotFigure":
    """Draw AOPC with its interval against cost on a logarithmic axis; the line joins what no other setting beats."""
    from matplotlib.ticker import LogLocator

    from .figures import MARKERS, SERIES, panel_figure

    names = dict.fromkeys(point.method for points in panels.values() for point in points)
    looks = dict(zip(names, cycle(product(MARKERS, SERIES)), strict=False))
    with panel_figure(len(panels), 1) as (figure, grid):
        figure.set_size_inches(WIDTH, PANEL * len(panels) + LINE * sum(map(len, panels.values())))
        for axes, (title, points) in zip(grid, panels.items(), strict=True):
            if line := [(cost.passes, result.aopc) for _, cost, result in measured(frontier(points))]:
                axes.step(*np.transpose(line), where="post", color="0.6", linewidth=1.2, zorder=0)
            for point, cost, result in sorted(measured(points), key=lambda entry: -entry[2].aopc):
                (marker, color), (low, high) = looks[point.method], result.aopc_interval
                errors = [[result.aopc - low], [high - result.aopc]]
                name = f"{result.aopc:.3f}  {shortened(point.method, NAME)}"
                axes.errorbar([cost.passes], [result.aopc], errors, fmt=marker, color=color, elinewidth=0.7, label=name)
            if line:
                axes.legend(title="AOPC and method", loc="upper center", bbox_to_anchor=(0.45, -0.22), fontsize=8)
            axes.set(xscale="log", xlabel="cost, forward passes", ylabel="AOPC", title=title)
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
            axes.grid(alpha=0.3, which="both")
    return figure


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
        from .figures import save_figure

        report({}, text, folder, "frontier", environment=environment(device), panels=listed)
        save_figure(frontier_figure(panels), folder / "frontier")
    return text


def _flips(points: Sequence[Point]) -> str:
    table = flips_table([result for _, _, result in measured(points)])
    return f"\n{table}" if table else ""


def _interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"
