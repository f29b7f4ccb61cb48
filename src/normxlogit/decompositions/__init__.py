"""Decompositions of encoders that the paper compares with: DecompX, GlobEnc, ALTI, Value Zeroing, attention rollout."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .decompx import DecompX
    from .matrix import Alti, AttentionRollout, GlobEnc
    from .value_zeroing import ValueZeroing

__all__ = ["Alti", "AttentionRollout", "DecompX", "GlobEnc", "ValueZeroing"]

_MODULES = {"DecompX": "decompx", "ValueZeroing": "value_zeroing"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'normxlogit.decompositions' has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES.get(name, 'matrix')}", __name__), name)


def __dir__() -> list[str]:
    return __all__
