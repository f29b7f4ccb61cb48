"""Links between the parts of an answer and what each part rests on: sources of the prompt and earlier parts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..results.attribution import Attribution
from ..results.storage.schema import Float64Array
from .blocks import Links

HINT = (
    "Point at a part of the answer to colour what it rests on, or at a source to colour what rests on it; "
    "click to hold, Escape to let go."
)


def links_of(s: Attribution, verdicts: Sequence[str] = (), direct: Attribution | None = None) -> Links:
    """Return the links between the K parts of an answer, its S sources and its P earlier parts.

    Args:
        s: The result whose shares of the sources are linked.
        verdicts: What is said of each part; empty for nothing.
        direct: The result that tells how much of each part rests on earlier parts, and how much is left to all
            sources; `s` by default.

    Returns:
        Links with a row of S + P shares for each part, None for a part of the answer that it cannot read.
    """
    of_parts = _shares_of_earlier_parts(s if direct is None else direct)  # (K, P)
    of_sources = np.atleast_2d(np.nan_to_num(s.shares))[:, s.units.sources]  # (K, S), 0 for a part that rests on none
    left_to_sources = 1 - np.nansum(of_parts, -1, keepdims=True)  # (K, 1); NaN of parts that stand behind
    rows = np.hstack([of_sources * left_to_sources, of_parts]).tolist()
    data: dict[str, Any] = {"shares": [list(map(_rounded, row)) for row in rows]}
    if verdicts:
        data["verdicts"] = list(verdicts)
    return Links(data, HINT)


def _shares_of_earlier_parts(direct: Attribution) -> Float64Array:
    """Return each earlier part's share of the positive scores of sources and earlier parts, (K, P).

    It is NaN where a part of the answer cannot read the other, which stands behind it.
    """
    part_starts = np.array([start for start, _ in direct.earlier_parts], int)  # (P,)
    target_starts = np.array(direct.target_spans)[:, 0]  # (K,)
    is_read = part_starts < target_starts[:, None]  # (K, P)
    positive = np.maximum(np.atleast_2d(direct.scores), 0)  # (K, U); one part may have no axis of targets
    of_parts = np.where(is_read, positive[:, list(direct.earlier_parts.values())], 0)  # (K, P)
    total = np.hstack([positive[:, direct.units.sources], of_parts]).sum(-1, keepdims=True)  # (K, 1)
    shares = (of_parts / np.where(total > 0, total, 1)).astype(float)  # (K, P), 0 where nothing speaks for a part
    return np.where(is_read, shares, np.nan)


def _rounded(share: float) -> float | None:
    """Round a share to three digits, which is what a page's script needs; None for NaN."""
    return None if np.isnan(share) else float(f"{share:.3g}")
