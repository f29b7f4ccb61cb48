"""Results as Markdown, JSON and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results.files import write_json, write_text
from ..results.schema import plain
from .faithfulness import Faithfulness, paired_p_value

if TYPE_CHECKING:
    from ..render.matplotlib_figure import PlotFigure

__all__ = ["curves_figure", "faithfulness_table", "grid", "markdown_table", "write_faithfulness"]


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the columns after the first are aligned right."""
    lines = ["| " + " | ".join(columns) + " |", "|---|" + "---:|" * (len(columns) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def faithfulness_table(results: Sequence[Faithfulness | None], names: Sequence[str]) -> str:
    """Return a Markdown table, best AOPC first; N/A where a method does not work on the model.

    The last column is the two-sided Wilcoxon p-value of the difference to the best method on the same texts.

    Args:
        results: One for each method, None for N/A.
        names: The methods' names.
    """
    found = sorted((r for r in results if r is not None), key=lambda r: -r.aopc)
    missing = [name for r, name in zip(results, names, strict=True) if r is None]
    quality = next((r.quality_name for r in found), "accuracy")
    lines = [
        f"| method | AOPC ↑ | 95% interval | sufficiency ↓ | {quality} ↓ | p (against the best) |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for place, r in enumerate(found):
        low, high = r.aopc_interval
        p = f"{paired_p_value(r, found[0]):.2g}" if place else ""
        lines.append(
            f"| {r.method} | {_marked(f'{r.aopc:.3f}', place)} | {low:.3f} to {high:.3f} | {r.sufficiency:.3f} "
            f"| {r.quality:.3f} | {p} |"
        )
    lines += [f"| {name} | N/A | | | | |" for name in missing]
    return "\n".join(lines) + "\n"


def grid(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], float | None],
    published: Mapping[tuple[str, str], float | str | None],
    *,
    lower_is_better: Sequence[str] = (),
) -> str:
    """Return a table like the paper's: ours, the published figure in brackets; best bold, second best underlined.

    Args:
        rows: Methods.
        columns: Data sets or models.
        cells: Our figures; None is N/A, a missing cell was not run.
        published: The paper's figures, or what else to say in brackets.
        lower_is_better: Columns in which the smallest figure is the best.
    """
    places: dict[tuple[str, str], int] = {}
    for column in columns:
        sign = 1 if column in lower_is_better else -1
        known = [(sign * value, row) for row in rows if (value := cells.get((row, column))) is not None]
        for place, (_, row) in enumerate(sorted(known, key=itemgetter(0))):
            places[row, column] = place
    lines = ["| method | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for row in rows:
        texts = []
        for column in columns:
            if (row, column) not in cells:
                texts.append("")
                continue
            value, theirs = cells[row, column], published.get((row, column))
            ours = "N/A" if value is None else _marked(f"{value:.3f}", places[row, column])
            said = f"{theirs:.3f}" if isinstance(theirs, float) else theirs
            texts.append(ours + (f" ({said})" if said else ""))
        lines.append(f"| {row} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def curves_figure(panels: Mapping[str, Sequence[Faithfulness]], *, curve: str = "aopc") -> "PlotFigure":
    """Draw a curve of each method over the share of perturbed tokens, a panel for each data set.

    Args:
        panels: The methods, by the panel's title.
        curve: "aopc", "sufficiency" or "quality".

    Returns:
        A matplotlib figure.

    Raises:
        DataError: If matplotlib is missing.
    """
    from ..render.matplotlib_figure import LINES, SERIES, panel_figure

    names = list(dict.fromkeys(r.method for results in panels.values() for r in results))
    colors = len(SERIES)
    looks = {name: (SERIES[i % colors], LINES[i // colors % len(LINES)]) for i, name in enumerate(names)}
    drawn = {}
    with panel_figure(len(panels), 3) as (figure, grid_):
        for axes, (title, results) in zip(grid_, panels.items(), strict=True):
            for r in results:
                color, style = looks[r.method]
                share = [100 * level for level in r.levels]
                (drawn[r.method],) = axes.plot(share, r.curves[curve], style, color=color, marker=".")
            quality = next((r.quality_name for r in results), "")
            label = {"aopc": "AOPC", "quality": quality}.get(curve, curve)
            axes.set(xlabel="perturbed tokens, %", ylabel=label, title=title)
            axes.grid(alpha=0.3)
        figure.legend(list(drawn.values()), list(drawn), loc="outside right upper", fontsize=7, handlelength=4)
    return figure


def write_faithfulness(
    folder: Path, results: Sequence[Faithfulness | None], names: Sequence[str], about: Mapping[str, Any]
) -> None:
    """Write `results.json`, `results.md` and the curves into a folder."""
    from ..render.matplotlib_figure import save_figure

    folder.mkdir(parents=True, exist_ok=True)
    found = [r for r in results if r is not None]
    state = {
        "about": dict(about),
        "results": [None if r is None else plain(asdict(r)) for r in results],
        "methods": list(names),
    }
    write_json(state, folder / "results.json")
    heading = ", ".join(f"{key}: {value}" for key, value in about.items())
    write_text(f"{heading}\n\n{faithfulness_table(results, names)}", folder / "results.md")
    for curve in ("aopc", "quality"):
        save_figure(curves_figure({str(about.get("dataset", "")): found}, curve=curve), folder / curve)


def _marked(text: str, place: int) -> str:
    return {0: f"**{text}**", 1: f"<u>{text}</u>"}.get(place, text)
