"""Figures of the alignment experiment: methods by layers as colours and as lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from .measures import MEASURES, Alignment, Measure, Scale
from .runs import Study

__all__ = ["write_figures"]

ANNOTATED = 14
"""Most layers whose figures are written into the squares."""


def write_figures(
    folder: Path, studies: Sequence[Study], theirs: Sequence[Study], *, scale: Scale = "published"
) -> list[Path]:
    """Draw both measures as a heatmap, as lines, as lines of LogAt's logits, and as lines of each paradigm.

    Args:
        folder: Where to; SVG, PDF and PNG each.
        studies: What was measured.
        theirs: What the paper published; panels of their own.
        scale: See `Scale`.

    Returns:
        The files.
    """
    written = []
    for measure in get_args(Measure):
        every = [*studies, *theirs]
        written += _heatmap(folder / f"heatmap-{measure}", every, measure, scale)
        written += _lines(
            folder / f"lines-{measure}",
            [(study, "all", _methods(study)) for study in every],
            len(every),
            measure,
            scale,
        )
        logits = [(study, "all", [a for a in study.alignments if a.method == "logat"]) for study in studies]
        written += _lines(folder / f"logits-{measure}", logits, len(studies), measure, scale)
        groups = [(study, group, _methods(study)) for study in studies for group in study.counts if _has(study, group)]
        columns = max(sum(study is panel[0] for panel in groups) for study in studies)
        written += _lines(folder / f"paradigms-{measure}", groups, columns, measure, scale)
    return written


def _methods(study: Study) -> list[Alignment]:
    """Return all series but LogAt of chosen words."""
    return [a for a in study.alignments if a.method != "logat" or a.title.endswith(("(target)", "(foil)", "(plural)"))]


def _has(study: Study, group: str) -> bool:
    return any(group in alignment.figures for alignment in study.alignments)


def _heatmap(path: Path, studies: Sequence[Study], measure: Measure, scale: Scale) -> list[Path]:
    from normxlogit.evaluation.report import save_figure
    from normxlogit.plots.figure import PlotFigure, without_formulas

    heights = [max(len(s.alignments), 1) for s in studies]
    widths = [max(layer for a in s.alignments for layer in a.layers) + 1 for s in studies]
    size = (2.8 + 0.45 * max(widths), 1.0 + sum(0.3 * h + 0.75 for h in heights))
    figure = PlotFigure(*size)
    panels = figure.subplots(len(studies), 1, squeeze=False, height_ratios=heights)
    everything = [v for s in studies for a in s.alignments for v in a.values(measure, scale=scale)]
    low, high = min(everything), max(everything)
    image: Any = None
    for axes, study, width in zip(panels[:, 0], studies, widths, strict=True):
        table = np.full((max(len(study.alignments), 1), width), np.nan)
        for row, alignment in enumerate(study.alignments):
            for layer, value in zip(alignment.layers, alignment.values(measure, scale=scale), strict=False):
                table[row, layer] = value
                if width <= ANNOTATED:
                    dark = value < (low + high) / 2
                    axes.text(layer, row, f"{value:.2f}", ha="center", va="center", size=7, color="w" if dark else "k")
        image = axes.imshow(table, vmin=low, vmax=high, cmap="viridis", aspect="auto")
        axes.set_yticks(range(len(study.alignments)), [a.title for a in study.alignments], size=8)
        axes.set_xticks(range(0, width, 1 if width <= ANNOTATED else 5))
        axes.set_title(study.name, size=9)
    panels[-1, 0].set_xlabel("layer (0: embeddings)")
    figure.colorbar(image, ax=panels[:, 0].tolist(), label=MEASURES[measure])
    return save_figure(without_formulas(figure), path)


def _lines(
    path: Path,
    panels: Sequence[tuple[Study, str, Sequence[Alignment]]],
    columns: int,
    measure: Measure,
    scale: Scale,
) -> list[Path]:
    """Draw a panel for each study and group; series of one figure are dotted lines across."""
    from normxlogit.evaluation.report import LINES, SERIES, save_figure
    from normxlogit.plots.figure import PlotFigure, without_formulas

    rows = -(-len(panels) // columns)
    figure = PlotFigure(3.1 * columns + 2.2, 2.9 * rows)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    titles = list(dict.fromkeys(a.title for _, _, series in panels for a in series))
    looks = {t: (SERIES[i % len(SERIES)], LINES[i // len(SERIES) % len(LINES)]) for i, t in enumerate(titles)}
    handles = {}
    for axes, (study, group, series) in zip(grid.flat, panels, strict=False):
        for alignment in series:
            values = alignment.values(measure, group=group, scale=scale)
            color, dashes = looks[alignment.title]
            style = {"color": color, "linewidth": 1.3}
            if len(values) > 1:
                (handle,) = axes.plot(alignment.layers, values, dashes, marker=".", **style)
            elif alignment.method == "logat" and values:
                (handle,) = axes.plot(alignment.layers, values, marker="*", linestyle="", **style)
            elif values:
                handle = axes.axhline(values[0], linestyle=":", **style)
            else:
                continue
            handles[alignment.title] = handle
        axes.set_title(study.name if group == "all" else f"{study.name}, {group}", size=8)
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize=7)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
    for axes in grid[-1]:
        axes.set_xlabel("layer", size=8)
    for axes in grid[:, 0]:
        axes.set_ylabel(MEASURES[measure], size=8)
    figure.legend(list(handles.values()), list(handles), loc="outside right center", fontsize=7)
    return save_figure(without_formulas(figure), path)
