"""Pictures with their scores as matplotlib figures."""

import base64
import io
from dataclasses import replace
from typing import Any

import numpy as np

from ... import Attribution
from ...plots.figure import PAGE_WIDTH, PlotFigure, color_of_sign, plot_style, without_formulas, write_left_out
from ...render.charts import number
from ...results.storage.schema import FloatArray
from ...results.units.characters import one_line, shortened
from ..units import PictureScores
from .blocks import MOST_PATCHES, merge_neighbours

ACROSS = 4
"""Pictures in a row."""

PICTURES = 11
"""Most parts with a picture of their own."""

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
    panels = []
    parts = [target.name if target.span is None else (g.text or "")[slice(*target.span)] for target in g.targets]
    for picture in g.images:
        rows = np.nan_to_num(picture.scores, nan=0.0, posinf=0.0, neginf=0.0).reshape(len(parts), *picture.shape)
        sizes = np.abs(rows).reshape(len(rows), -1).sum(-1)  # (parts,)
        shown = sorted(np.argsort(-sizes, kind="stable")[: k or PICTURES].tolist())  # the largest, in their order
        names = [shortened(parts[part], LABEL) for part in shown]
        scores = rows[shown]  # (parts, h, w)
        if len(parts) > 1:
            names = ["the whole answer", *names]
            scores = np.concatenate([rows.sum(0)[None], scores])
        height = 0.5 + max(0.7, 1.6 * picture.height / picture.width) * -(-len(names) // ACROSS)
        panels.append((merge_neighbours(replace(picture, scores=scores), MOST_PATCHES), names, height))
    heights = [height for *_, height in panels]
    with plot_style():
        figure = PlotFigure(PAGE_WIDTH, sum(heights))
        areas = figure.subfigures(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
        for area, (picture, names, _) in zip(areas, panels, strict=True):
            _pictures(area, picture, names, len(parts), signed=g.signed)
        return without_formulas(figure)


def _pictures(area: Any, image: PictureScores, names: list[str], parts: int, *, signed: bool) -> None:
    """Draw a picture once for each row of scores; with several parts, the first row is for the whole answer."""
    all_axes = area.subplots(-(-len(names) // ACROSS), min(ACROSS, len(names)), squeeze=False).ravel()
    sums = image.total  # (rows,)
    for axes, name, scores, total in zip(all_axes, names, image.scores, sums.tolist(), strict=False):
        draw_picture(axes, image, scores)
        axes.set_title(f"{name}  {number(total, float(np.abs(sums).max()), signed=signed)}", size=8)
    for axes in all_axes[len(names) :]:
        axes.remove()
    listed = len(names) - (parts > 1)
    write_left_out(all_axes[min(len(names), ACROSS) - 1], listed, parts - listed)
    area.suptitle(f"{one_line(image.name)}: sum of patches; colours by the largest of each picture", size=8)


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
    corners: Any = np.stack([[left, top], [right, top], [right, bottom], [left, bottom]]).transpose(2, 0, 1)
    strengths = (scores / (np.abs(scores).max() or 1.0)).ravel().tolist()
    colors = [to_rgba(color_of_sign(strength), DENSEST * abs(strength)) for strength in strengths]
    axes.add_collection(PolyCollection(corners, facecolors=colors, linewidths=0))
    axes.set(xlim=(0, image.width), ylim=(image.height, 0), aspect="equal", xticks=[], yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)
