"""Results as Markdown, JSON and figures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..methods import list_methods
from ..results.storage.files import replacing, write_json, write_text
from ..results.storage.schema import plain
from .faithfulness import Faithfulness, paired_difference, paired_p_value, worse_than_random
from .flips import COUNTS, MOST
from .latex import latex_tables
from .runs import Refused
from .statistics import holm, interval_text, mean_interval

if TYPE_CHECKING:
    from ..plots.figure import PlotFigure


Metadata = Mapping[str, Any]
"""What was measured on, by name."""


SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours of Okabe and Ito (2008), safe for colour-blind readers; after the last, the next of `LINES` is used."""

LINES = ("-", "--", ":", "-.")
"""Matplotlib's line styles: one for all methods of a round of colours."""

MARKERS = "os^vDP*X<>hp"
"""Matplotlib's markers, which tell the settings of a method apart."""

TOKENS_LEFT_OUT = "tokens left out, % (highest scores first)"
"""What the horizontal axis of a curve has."""

TOKENS_KEPT = "tokens kept, % (highest scores)"
"""What the horizontal axis of the curve of sufficiency has."""

FORMATS = (".svg", ".pdf", ".png")
"""The file formats of a figure."""


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the columns after the first are aligned right."""
    lines = [f"| {' | '.join(row)} |" for row in (columns, *rows)]
    lines.insert(1, "|---|" + "---:|" * (len(columns) - 1))  # below the names
    return "\n".join([*lines, ""])


def report(metadata: Metadata, table: str, folder: Path | None = None, file_name: str = "results", **state: Any) -> str:
    """Return a report in Markdown: a line of metadata, and tables.

    Args:
        metadata: What was measured on, by name.
        table: Tables in Markdown.
        folder: Where the report is written, as Markdown and JSON, and its tables as LaTeX; None for nowhere.
        file_name: The name of the files, without their endings.
        **state: Further contents of the JSON file.
    """
    text = table
    if metadata:
        facts = ", ".join(f"{name}: {value}" for name, value in metadata.items())
        text = f"{facts}\n\n{table}"
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        contents = {"metadata": metadata, **state} if metadata else state
        write_json(plain(contents), folder / f"{file_name}.json")
        write_text(text, folder / f"{file_name}.md")
        write_text(latex_tables(text), folder / f"{file_name}.tex")
    return text


def faithfulness_table(results: Sequence[Faithfulness | Refused]) -> str:
    """Return a Markdown table, best AOPC first, with each one's distance to the best; N/A where refused.

    The p-values are those of Wilcoxon's test on the same texts, corrected for their number (`holm`).
    """
    ranked = sorted((result for result in results if isinstance(result, Faithfulness)), key=lambda result: -result.aopc)
    quality = ranked[0].quality_name if ranked else "accuracy"
    columns = ["method", "AOPC ↑", "95% interval", "sufficiency ↓", f"{quality} ↓", "below the best", "p (Holm)"]
    rows = []
    for rank, (result, comparison) in enumerate(zip(ranked, _comparison_cells(ranked), strict=True)):
        low, high = result.aopc_interval
        figures = [f"{low:.3f} to {high:.3f}", f"{result.sufficiency:.3f}", f"{result.quality:.3f}"]
        rows.append([result.method, emphasised(f"{result.aopc:.3f}", rank), *figures, *comparison])
    empty_cells = [""] * (len(columns) - 2)
    rows += [[result.method, "N/A", *empty_cells] for result in results if isinstance(result, Refused)]
    return markdown_table(columns, rows)


def _comparison_cells(ranked: Sequence[Faithfulness]) -> list[list[str]]:
    """Return for each result how far it is below the best, the first, and the p-value; empty cells of the best."""
    if not ranked:
        return []
    best, *worse = ranked
    p_values = holm([paired_p_value(result, best) for result in worse])
    differences = [interval_text(paired_difference(best, result), 3) for result in worse]
    return [["", ""], *([cell, f"{p:.2g}"] for cell, p in zip(differences, p_values, strict=True))]


def comparison_line(results: Sequence[Faithfulness]) -> str:
    """Return a sentence that says what was paired and compared; empty where there is nothing to compare."""
    if len(results) < 2:
        return ""
    comparisons = "1 comparison" if len(results) == 2 else f"{len(results) - 1} comparisons"
    return (
        f"Compared is the AOPC of each of the same {results[0].texts} texts: how far a method is below the best, with "
        f"the 95% interval by Student's t, and p of a two-sided Wilcoxon signed-rank test, corrected for {comparisons} "
        "(Holm).\n"
    )


def random_lines(results: Sequence[Faithfulness]) -> str:
    """Return a line for each method that is worse than `random` on these texts; empty if none is, or it is missing."""
    lines = []
    for method, (difference, low, high) in worse_than_random(results).items():
        # How much lower is said without a sign, which turns the ends of the interval around.
        interval = f"95% interval {-high:.3f} to {-low:.3f}"
        lines.append(
            f"**{method} is worse than random on this model**: over {results[0].texts} texts its AOPC is "
            f"{-difference:.3f} lower ({interval}).\n"
        )
    return "\n".join(lines)


def flips_table(results: Sequence[Faithfulness]) -> str:
    """Return a Markdown table: in which share of the texts the prediction changes after a few deleted words.

    Its last row is the most that one word can change. Of values: by how much they are lower, with the 95% interval.
    """
    # By the share after one word, of equal ones by that after two, and so on.
    ranked = sorted((result for result in results if result.flips), key=_flipped_shares, reverse=True)
    if not ranked:
        return _falls_table(results)
    rows = []
    for result in ranked:
        median = float(np.median(result.flips))
        shares = [f"{share:.2f}" for share in _flipped_shares(result)]
        rows.append([result.method, *shares, f"> {MOST}" if np.isinf(median) else f"{median:g}"])
    flippable_share = next((r.flippable for r in results if r.flippable is not None), None)
    if flippable_share is not None:
        rows.append(["the best word of each text", f"{flippable_share:.2f}", *[""] * len(COUNTS)])
    return markdown_table(["prediction changed after", *_count_columns(), "median ↓"], rows)


def _flipped_shares(result: Faithfulness) -> list[float]:
    """Return in which share of the texts the prediction has changed after each of `COUNTS` words."""
    return [float((np.array(result.flips) <= count).mean()) for count in COUNTS]


def _count_columns() -> list[str]:
    """Return the headings of the columns that tell what happens after `COUNTS` deleted words."""
    return ["1 word ↑", *(f"{count} words ↑" for count in COUNTS[1:])]


def _falls_table(results: Sequence[Faithfulness]) -> str:
    """Return a Markdown table of the fall of a value after a few deleted words; empty if it was not measured."""
    ranked = sorted(
        (result for result in results if result.falls), key=lambda result: np.mean(result.falls), reverse=True
    )
    if not ranked:
        return ""
    rows = []
    for result in ranked:
        intervals = [mean_interval(column) for column in np.array(result.falls).T]  # (N,) each
        rows.append([result.method, *(f"{mean:+.3f} ({low:+.3f} to {high:+.3f})" for mean, low, high in intervals)])
    return markdown_table(["value is lower after", *_count_columns()], rows)


@contextmanager
def panel_figure(panels: int, across: int) -> "Iterator[tuple[PlotFigure, list[Any]]]":
    """Make a figure of several panels, which is drawn inside the block, in the style of all plots.

    Args:
        panels: How many panels there are.
        across: How many stand side by side at most.

    Yields:
        The figure, and the axes of each panel.
    """
    from ..plots.figure import PlotFigure, plot_style, without_formulas

    columns = min(panels, across)
    rows = ceil(panels / columns)
    with plot_style():
        figure = PlotFigure(4.0 * columns + 2.2, 3.3 * rows)  # inches, with room for a legend at the right
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes in grid[panels:]:  # the last row may be longer than its panels
            axes.remove()
        yield figure, grid[:panels]
        without_formulas(figure)


def save_figure(figure: "PlotFigure", path: Path) -> list[Path]:
    """Write a figure as SVG, PDF and PNG, each atomically."""
    files = [path.with_name(path.name + ending) for ending in FORMATS]
    for file in files:
        with replacing(file) as temporary:
            figure.savefig(temporary)
    return files


class Look(NamedTuple):
    """How a method is drawn."""

    color: str
    line: str  # the line style, one of `LINES`
    marker: str  # one of `MARKERS`


def looks_of(specs: Iterable[str]) -> dict[str, Look]:
    """Return how methods are drawn: one colour and line for a method in all figures, a marker for its settings.

    A method has its colour by its place among all methods. Where there are more methods than colours, the next round of
    colours begins with another line and another marker.

    Args:
        specs: Methods with the settings that differ from the defaults.

    Returns:
        The look of each, by the method with its settings.
    """
    places = {info.name: place for place, info in enumerate(list_methods())}
    settings_seen: Counter[str] = Counter()  # by the name of the method
    looks = {}
    for spec in dict.fromkeys(specs):
        name = spec.partition(":")[0]
        place = places.setdefault(name, len(places))  # scores of another library have a name of their own
        round_of_colors, color = divmod(place, len(SERIES))
        line = LINES[round_of_colors % len(LINES)]
        marker = MARKERS[(round_of_colors * 3 + settings_seen[name]) % len(MARKERS)]
        looks[spec] = Look(SERIES[color], line, marker)
        settings_seen[name] += 1
    return looks


def _y_label(curve: str, *, is_regression: bool) -> str:
    """Return the label of the vertical axis of a curve, "aopc", "sufficiency" or "quality"."""
    if curve == "quality":
        return "Pearson's correlation" if is_regression else "accuracy"
    return "change of the value" if is_regression else "drop of the predicted label's probability"


def curves_figure(panels: Mapping[str, Sequence[Faithfulness]], *, curve: str = "aopc") -> "PlotFigure":
    """Draw a curve of each method over perturbed tokens, in panels; the bands are 95% intervals over texts.

    Args:
        panels: The results of methods, by the title of their panel.
        curve: Which curve of the results: "aopc", "sufficiency" or "quality".
    """
    looks = looks_of(result.method for results in panels.values() for result in results)
    x_label = TOKENS_KEPT if curve == "sufficiency" else TOKENS_LEFT_OUT
    lines = {}  # of methods in any panel, for the one legend
    with panel_figure(len(panels), 3) as (figure, all_axes):
        for axes, (title, results) in zip(all_axes, panels.items(), strict=True):
            for result in results:
                lines[result.method] = _draw_curve(axes, result, curve, looks[result.method])
            is_regression = any(result.quality_name == "pearson" for result in results)
            axes.set(xlabel=x_label, ylabel=_y_label(curve, is_regression=is_regression), title=title)
            axes.grid(alpha=0.3)
        figure.legend(list(lines.values()), list(lines), loc="outside right upper", fontsize=7, handlelength=4)
    return figure


def _draw_curve(axes: Any, result: Faithfulness, curve: str, look: Look) -> Any:
    """Draw a curve of a method with its 95% intervals, if there are any; return its line.

    Args:
        axes: Matplotlib's axes of the panel.
        result: The result of the method.
        curve: Which curve, as in `curves_figure`.
        look: How the method is drawn.
    """
    percents = [100 * level for level in result.levels]
    (line,) = axes.plot(  # matplotlib returns a list of the lines
        percents, result.curves[curve], linestyle=look.line, color=look.color, marker=look.marker, markersize=3
    )
    if curve in result.curve_intervals:
        low, high = zip(*result.curve_intervals[curve], strict=True)
        axes.fill_between(percents, low, high, color=look.color, alpha=0.12, linewidth=0)
    return line


def write_faithfulness(folder: Path | None, results: Sequence[Faithfulness | Refused], metadata: Metadata) -> str:
    """Return the report of faithfulness; write it and the curves into the folder, if any.

    Args:
        folder: The folder; None to write nothing.
        results: What each method reached, or why it was refused.
        metadata: What the report says of the run, such as the data set and the model.
    """
    measured = [result for result in results if isinstance(result, Faithfulness)]
    parts = [faithfulness_table(results), comparison_line(measured), random_lines(measured), flips_table(measured)]
    text = report(
        metadata,
        "\n".join(filter(None, parts)),
        folder,
        # A refused method keeps its place, so that results and names of methods match.
        results=[result if isinstance(result, Faithfulness) else None for result in results],
        methods=[result.method for result in results],
        worse_than_random=worse_than_random(measured),
    )
    if folder is not None:
        panels = {str(metadata.get("dataset", "")): measured}
        for curve in ("aopc", "quality"):
            save_figure(curves_figure(panels, curve=curve), folder / curve)
    return text


def emphasised(text: str, rank: int) -> str:
    """Return a cell of a table: in bold of the best, whose rank is 0, underlined of the second best."""
    if rank == 0:
        return f"**{text}**"
    return f"<u>{text}</u>" if rank == 1 else text
