"""Which layer stands for the others, where only one is drawn."""

from typing import TYPE_CHECKING

import numpy as np

from .storage.schema import FloatArray

if TYPE_CHECKING:
    from .attribution import Attribution

VISIBLE = 0.1
"""A layer stands for the others only if this share of its scores is outside special tokens."""


def representative_layer(a: "Attribution") -> int:
    """Return the index of the last layer with visible scores outside special tokens; 0 without an axis of layers."""
    if a.layers is None:
        return 0
    magnitudes = np.nan_to_num(np.abs(a.scores)).reshape(-1, len(a.layers), len(a.units)).sum(0)  # (L, U)
    is_plain = ~np.array(a.units.special, dtype=bool)  # (U,)
    return last_visible(magnitudes[:, is_plain].sum(-1), magnitudes.sum(-1))


def last_visible(plain: FloatArray, total: FloatArray) -> int:
    """Return the index of the last layer with visible scores outside special tokens.

    Args:
        plain: (L,), the sum of the magnitudes of scores outside special tokens.
        total: (L,), that of all scores.

    Returns:
        Its index; if no layer has any, that of the layer with the largest share.
    """
    shares = plain / np.maximum(total, 1e-30)  # (L,); 0 of a layer whose scores are all 0
    visible = np.flatnonzero(shares >= VISIBLE)
    return int(visible[-1] if len(visible) else shares.argmax())
