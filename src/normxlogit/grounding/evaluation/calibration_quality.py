"""How well calibrated probabilities agree with labels, on sentences that the curve was not fitted to."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...evaluation.evidence import auroc
from ...evaluation.report import markdown_table
from ...evaluation.statistics import interval_text, mean_interval
from ..calibration import Array, Labels, curve, platt

EDGES = (0.3, 0.5, 0.7)
"""The probabilities at which the table's rows end."""

ROWS = ("below 30%", "30% to 50%", "50% to 70%", "70% and more")
"""The names of the rows."""


def calibration_table(supports: Array, is_supported: Labels, parts: Sequence[str]) -> str:
    """Return a Markdown table of how many of the sentences of each probability are supported.

    Args:
        supports: The support of each sentence, (n,).
        is_supported: Whether its documents support it, (n,).
        parts: Which part of the data each is of, (n,); a part's curve is fitted to the others.
    """
    probabilities = _of_other_parts(supports, is_supported, np.array(parts))  # (n,)
    row_of = np.digitize(probabilities, EDGES)  # (n,)
    rows = []
    for row, name in enumerate(ROWS):
        labels = is_supported[row_of == row].astype(np.float64)
        rows.append([name, str(len(labels)), interval_text(mean_interval(labels)) if len(labels) else ""])
    rate = is_supported.mean()
    # The score of one probability for all, the share: its variance.
    brier, brier_of_rate = ((probabilities - is_supported) ** 2).mean(), rate * (1 - rate)
    table = markdown_table(["probability", "sentences", "of them supported"], rows)
    return (
        f"{table}\nOf {len(supports)} sentences {rate:.0%} are supported. AUROC of the support "
        f"{auroc(supports, is_supported):.2f}; Brier score of the probabilities {brier:.3f}, of that share for all "
        f"{brier_of_rate:.3f} (lower is better).\n"
    )


def _of_other_parts(supports: Array, is_supported: Labels, parts: npt.NDArray[np.str_]) -> Array:
    """Return the probability of each sentence, (n,), by a curve that was fitted to the other parts."""
    probabilities = np.zeros(len(supports))
    for part in np.unique(parts):
        inside = parts == part
        probabilities[inside] = curve(supports[inside], *platt(supports[~inside], is_supported[~inside]))
    return probabilities
