"""Decompositions of encoders that the paper compares with: DecompX, GlobEnc, ALTI, Value Zeroing, attention rollout."""

from typing import TYPE_CHECKING

from ..extending import lazy_names

if TYPE_CHECKING:
    from .decompx import DecompX
    from .matrix import Alti, AttentionRollout, GlobEnc
    from .value_zeroing import ValueZeroing

__all__ = ["Alti", "AttentionRollout", "DecompX", "GlobEnc", "ValueZeroing"]

__getattr__ = lazy_names(
    __name__,
    {
        "decompx": ("DecompX",),
        "matrix": ("Alti", "AttentionRollout", "GlobEnc"),
        "value_zeroing": ("ValueZeroing",),
    },
)
