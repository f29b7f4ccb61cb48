"""The frontier as a Markdown table, JSON and a figure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..results.files import replacing, write_json, write_text
from .faithfulness import Faithfulness
from .frontier import Cost, Point, frontier
from .timing import environment

__all__ = ["frontier_figure", "frontier_table", "frontier_text", "write_frontier"]

MARKERS = "os^vDP*X<>hp"


def frontier_table(points: Sequence[Point]) -> str:
    """Return a Markdown table, the cheapest first; what no other setting beats has its AOPC in bold.

    Args:
        points: One for each method and setting; those that do not work on the model stand last, with the reason.
    """
    best = frontier(points)
    lines = [
        "| method | forward passes | AOPC ↑ | 95% interval | sufficiency ↓ | 95% interval |",
        "|---|---:|---:|---|---:|---|",
    ]
    for point, cost, result in _measured(points):
        aopc = f"**{result.aopc:.3f}**" if point in best else f"{result.aopc:.3f}"
        lines.append(
            f"| {point.method} | {cost.passes:.3g} | {aopc} | {_interval(result.aopc_interval)} "
            f"| {result.sufficiency:.3f} | {_interval(result.sufficiency_interval)} |"
        )
    lines += [f"| {p.method} | N/A: {p.reason.replace('|', '/')} | | | | |" for p in points if p.reason]
    return "\n".join(lines) + "\n"


def frontier_figure(panels: Mapping[str, Sequence[Point]], path: Path) -> list[Path]:
    """Draw AOPC with its interval against cost on a logarithmic axis, as SVG and PNG.

    A colour is a method, a marker one of its settings; the line joins what no other setting beats.

    Args:
        panels: The points of each model and task, by the panel's title.
        path: File name without ending.

    Returns:
        The two files.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    across = min(len(panels), 2)
    down = -(-len(panels) // across)
    figure, grid = plt.subplots(
        down, across, figsize=(5.5 * across + 3, 4.6 * down), layout="constrained", squeeze=False
    )
    looks, drawn = _looks([p.method for points in panels.values() for p in points]), {}
    for axes, (title, points) in zip(grid.flat, panels.items(), strict=False):
        line = [(cost.passes, result.aopc) for _, cost, result in _measured(frontier(points))]
        if line:
            xs, ys = zip(*line, strict=True)
            axes.step(xs, ys, where="post", color="0.6", linewidth=1.2, zorder=0)
        for point, cost, result in _measured(points):
            color, marker = looks[point.method]
            low, high = result.aopc_interval
            errors = [[result.aopc - low], [high - result.aopc]]
            drawn[point.method] = axes.errorbar(
                [cost.passes], [result.aopc], errors, fmt=marker, color=color, markersize=6, elinewidth=0.7, alpha=0.9
            )
        axes.set(xscale="log", xlabel="cost, forward passes", ylabel="AOPC", title=title)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3, which="both")
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    named = [method for method in looks if method in drawn]
    figure.legend([drawn[m] for m in named], named, loc="outside right upper", fontsize=7)
    files = [path.with_suffix(".svg"), path.with_suffix(".png")]
    with replacing(files[0]) as beside:
        figure.savefig(beside, metadata={"Date": None})
    with replacing(files[1]) as beside:
        figure.savefig(beside, dpi=150)
    plt.close(figure)
    return files


def frontier_text(panels: Mapping[str, Sequence[Point]], about: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the tables of all panels in Markdown, each under a line that says what it is.

    Args:
        panels: The points of each model and task, by title.
        about: What to say of each, by title.
    """
    return "\n".join(
        f"{title}: {', '.join(f'{key} {value}' for key, value in about[title].items())}\n\n{frontier_table(points)}"
        for title, points in panels.items()
    )


def write_frontier(
    folder: Path,
    panels: Mapping[str, Sequence[Point]],
    about: Mapping[str, Mapping[str, Any]],
    device: torch.device,
) -> None:
    """Write `frontier.json`, `frontier.md` and the figure into a folder.

    Args:
        folder: Where to.
        panels: The points of each model and task, by title.
        about: What to say of each, by title.
        device: Where the models ran.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "environment": environment(device),
        "panels": [
            {"title": title, "about": dict(about[title]), "points": [asdict(point) for point in points]}
            for title, points in panels.items()
        ],
    }
    write_json(state, folder / "frontier.json")
    write_text(frontier_text(panels, about), folder / "frontier.md")
    frontier_figure(panels, folder / "frontier")


def _measured(points: Sequence[Point]) -> list[tuple[Point, Cost, Faithfulness]]:
    """Return what works on the model, the cheapest first."""
    found = [(p, p.cost, p.result) for p in points if p.cost is not None and p.result is not None]
    return sorted(found, key=lambda entry: entry[1].passes)


def _interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"


def _looks(methods: Sequence[str]) -> dict[str, tuple[Any, str]]:
    """Return a colour for each method and a marker for each of its settings."""
    from matplotlib import colormaps

    families: dict[str, list[str]] = {}
    for method in dict.fromkeys(methods):
        families.setdefault(method.partition(":")[0], []).append(method)
    colors = [*map(colormaps["tab10"], range(10)), *map(colormaps["Dark2"], range(8))]
    return {
        method: (colors[i % len(colors)], MARKERS[j % len(MARKERS)])
        for i, settings in enumerate(families.values())
        for j, method in enumerate(settings)
    }
