"""The scores of every layer, for the slider of a page."""

import json
from typing import Any

from markupsafe import Markup

from ..results.attribution import Attribution
from ..results.characters import safe
from .layout import Layout

__all__ = ["data", "steps"]


def data(values: Any) -> Markup:
    """Return values as JSON that can stand in a script element: in ASCII, and without anything that ends it."""
    text = json.dumps(values, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))  # noqa: S704  # nothing in it is markup


def steps(a: Attribution, drawn: Layout) -> Markup:
    """Return what the slider needs: names, and the scores and strengths of each label at each layer."""
    labels = [safe(label) for label in a.target.labels] if a.has_label_axis else [""]
    rows: list[list[dict[str, Any]]] = [[] for _ in labels]
    for row in drawn.rows:
        rows[row.label or 0].append(
            {
                "scale": float(f"{row.scale:.6g}"),
                "scores": [float(f"{s:.4g}") for s in row.scores.tolist()],
                "strengths": [round(s, 3) for s in row.strengths.tolist()],
            }
        )
    return data(
        {
            "layers": a.layers,
            "labels": labels,
            "names": [safe(column.name) for column in drawn.columns],
            "special": [i for i, column in enumerate(drawn.columns) if column.special],
            "signed": a.signed,
            "rows": rows,
        }
    )
