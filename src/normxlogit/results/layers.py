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
    sizes = np.nan_to_num(np.abs(a.scores)).reshape(-1, len(a.layers), len(a.units)).sum(0)  # (L, T)
    plain = ~np.array(a.units.special, dtype=bool)
    return last_visible(sizes[:, plain].sum(-1), sizes.sum(-1))


def last_visible(plain: FloatArray, total: FloatArray) -> int:
    """Return the last layer with visible scores outside special tokens, of magnitudes there and of all scores, (L,)."""
    shares = plain / np.maximum(total, 1e-30)  # (L,)
    visible = np.flatnonzero(shares >= VISIBLE)
    return int(visible[-1] if len(visible) else shares.argmax())
