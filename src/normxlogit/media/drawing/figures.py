"""Pictures with their scores as matplotlib figures."""

import base64
import io
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ... import Attribution
from ...plots.figure import PAGE_WIDTH, PlotFigure, color_of_sign, plot_style, without_formulas, write_left_out
from ...render.charts import number
from ...results.storage.schema import FloatArray
from ...results.units.characters import one_line, shortened
from ..units import PictureScores
from .blocks import MOST_PATCHES, merge_neighbours

ACROSS = 4
"""Drawings beside each other."""

PICTURES = 11
"""Most parts of an answer with a drawing of their own."""

DENSEST = 0.6
"""The opacity of the strongest patch."""

DESATURATION = 0.85
"""How far a picture is desaturated, from 0 to 1, so that its own colours are not taken for scores."""

LABEL = 24
"""Most characters of a part's name."""


def pictures_figure(g: Attribution, *, k: int | None = None) -> PlotFigure:
    """Draw pictures of a result of one layer, once for each part of the answer, each on its own scale.

    Several parts come behind the whole answer.

    Args:
        g: The result.
        k: How many parts are drawn, those with the largest scores; None for `PICTURES`.
    """
    parts = [target.name if target.span is None else (g.text or "")[slice(*target.span)] for target in g.targets]
    panels = [_panel(picture, parts, most_parts=k or PICTURES) for picture in g.images]
    heights = [panel.height for panel in panels]
    with plot_style():
        figure = PlotFigure(PAGE_WIDTH, sum(heights))
        areas = figure.subfigures(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
        for area, panel in zip(areas, panels, strict=True):
            _draw_panel(area, panel, len(parts), signed=g.signed)
        return without_formulas(figure)


class _Panel(NamedTuple):
    """A picture of the input, which is drawn several times: for the whole answer, and for parts of it."""

    picture: PictureScores  # with the scores of each drawing, (drawings, h, w)
    names: list[str]  # of the drawings
    line_count: int  # of drawings beside each other

    @property
    def height(self) -> float:
        """The height of the panel with its titles, in inches."""
        return 0.5 + max(0.7, 1.6 * self.picture.height / self.picture.width) * self.line_count


def _panel(picture: PictureScores, parts: list[str], most_parts: int) -> _Panel:
    """Return the panel of a picture with the parts of the answer that have the largest scores.

    Args:
        picture: The picture.
        parts: The names of all parts of the answer.
        most_parts: How many of them are drawn at most.
    """
    rows = np.nan_to_num(picture.scores, nan=0.0, posinf=0.0, neginf=0.0).reshape(len(parts), *picture.shape)
    sizes = np.abs(rows).reshape(len(rows), -1).sum(-1)  # (parts,)
    shown = sorted(np.argsort(-sizes, kind="stable")[:most_parts].tolist())  # the largest, in their order
    names = [shortened(parts[part], LABEL) for part in shown]
    scores = rows[shown]  # (drawings, h, w)
    if len(parts) > 1:  # a single part is the whole answer
        names = ["the whole answer", *names]
        scores = np.concatenate([rows.sum(0)[None], scores])
    merged = merge_neighbours(replace(picture, scores=scores), MOST_PATCHES)
    return _Panel(merged, names, line_count=math.ceil(len(names) / ACROSS))


def _draw_panel(area: Any, panel: _Panel, part_count: int, *, signed: bool) -> None:
    """Draw a picture once for each row of its scores, in a part of a figure.

    Args:
        area: The subfigure of matplotlib.
        panel: The picture.
        part_count: How many parts the answer has.
        signed: Whether scores may be negative.
    """
    picture, names, line_count = panel
    all_axes = area.subplots(line_count, min(ACROSS, len(names)), squeeze=False).ravel()
    sums = picture.total  # (drawings,)
    # The last line may have more fields than there are drawings left.
    for axes, name, scores, total in zip(all_axes, names, picture.scores, sums.tolist(), strict=False):
        draw_picture(axes, picture, scores)
        axes.set_title(f"{name}  {number(total, float(np.abs(sums).max()), signed=signed)}", size=8)
    for axes in all_axes[len(names) :]:  # the empty fields of the last line
        axes.remove()
    drawn_parts = len(names) - (part_count > 1)  # without the drawing for the whole answer
    end_of_first_line = all_axes[min(len(names), ACROSS) - 1]
    write_left_out(end_of_first_line, drawn_parts, part_count - drawn_parts)
    area.suptitle(f"{one_line(picture.name)}: sum of patches; colours by the largest of each picture", size=8)


def draw_picture(axes: Any, image: PictureScores, scores: FloatArray) -> None:
    """Draw a picture, grey, with its patches coloured.

    Args:
        axes: The axes of matplotlib.
        image: The picture.
        scores: The scores of its patches, (h, w); the largest one has the strongest colour.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    if image.preview:
        from PIL import Image

        data = base64.b64decode(image.preview.split(",", 1)[1])
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        grey = Image.blend(picture, picture.convert("L").convert("RGB"), DESATURATION)
        axes.imshow(grey, extent=(0, image.width, image.height, 0))
    left, top, right, bottom = image.boxes.reshape(-1, 4).T  # (patches,) each
    corners: Any = np.stack([[left, top], [right, top], [right, bottom], [left, bottom]])  # (4, 2, patches)
    corners = corners.transpose(2, 0, 1)  # (patches, 4, 2)
    strengths = (scores / (np.abs(scores).max() or 1.0)).ravel().tolist()  # of zeros alone all stay 0
    colors = [to_rgba(color_of_sign(strength), DENSEST * abs(strength)) for strength in strengths]
    axes.add_collection(PolyCollection(corners, facecolors=colors, linewidths=0))
    axes.set(xlim=(0, image.width), ylim=(image.height, 0), aspect="equal", xticks=[], yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)
