"""Links between the parts of an answer and what each part rests on: sources of the prompt and earlier parts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..results.attribution import Attribution
from ..results.storage.schema import Float64Array, FloatArray
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
    earlier = _earlier_parts(s if direct is None else direct)
    left_to_sources = 1 - earlier.shares.sum(-1, keepdims=True)  # (K, 1)
    source_shares = shares_of_sources(s) * left_to_sources  # (K, S)
    rows = [
        [*map(_rounded, of_sources), *_known_shares(of_parts, are_read)]
        for of_sources, of_parts, are_read in zip(source_shares, earlier.shares, earlier.is_read, strict=True)
    ]
    data: dict[str, Any] = {"shares": rows}
    if verdicts:
        data["verdicts"] = list(verdicts)
    return Links(data, HINT)


def shares_of_sources(s: Attribution) -> FloatArray:
    """Return each source's share of each part of the answer, (K, S); 0 where a part rests on no source."""
    shares = np.atleast_2d(np.nan_to_num(s.shares))  # (K, U)
    return np.asarray(shares[:, s.units.sources])


class _EarlierParts(NamedTuple):
    """What the parts of an answer rest on of its earlier parts."""

    shares: Float64Array  # (K, P)
    is_read: NDArray[np.bool_]  # (K, P): whether the part stands before it


def _earlier_parts(direct: Attribution) -> _EarlierParts:
    """Return the share of each earlier part in the positive scores of sources and earlier parts."""
    part_starts = np.array([start for start, _ in direct.earlier_parts], int)  # (P,)
    target_starts = np.array(direct.target_spans)[:, 0]  # (K,)
    is_read = part_starts < target_starts[:, None]  # (K, P)
    positive = np.maximum(np.atleast_2d(direct.scores), 0)  # (K, U)
    of_parts = np.where(is_read, positive[:, list(direct.earlier_parts.values())], 0)  # (K, P)
    total = np.hstack([positive[:, direct.units.sources], of_parts]).sum(-1, keepdims=True)  # (K, 1)
    return _EarlierParts((of_parts / np.where(total > 0, total, 1)).astype(float), is_read)


def _known_shares(shares: Float64Array, are_read: NDArray[np.bool_]) -> list[float | None]:
    return [_rounded(share) if is_read else None for share, is_read in zip(shares, are_read, strict=True)]


def _rounded(share: float) -> float:
    """Round a share to three digits, which is what a page's script needs."""
    return float(f"{share:.3g}")
