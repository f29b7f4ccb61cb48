"""Methods that the paper compares with: decompositions of encoders, gradients, and linear models of perturbed texts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .decompx import DecompX
    from .gradient import GradientNorm, GradientXInput, IntegratedGradients
    from .guided_lime import GuidedLime
    from .matrix import Alti, AttentionRollout, GlobEnc
    from .surrogates import ContextCite, KernelShap, Lime
    from .value_zeroing import ValueZeroing

_MODULES = {
    "DecompX": "decompx",
    "GuidedLime": "guided_lime",
    "ValueZeroing": "value_zeroing",
    **dict.fromkeys(("Alti", "AttentionRollout", "GlobEnc"), "matrix"),
    **dict.fromkeys(("GradientNorm", "GradientXInput", "IntegratedGradients"), "gradient"),
    **dict.fromkeys(("ContextCite", "KernelShap", "Lime"), "surrogates"),
}

__all__ = [
    "Alti",
    "AttentionRollout",
    "ContextCite",
    "DecompX",
    "GlobEnc",
    "GradientNorm",
    "GradientXInput",
    "GuidedLime",
    "IntegratedGradients",
    "KernelShap",
    "Lime",
    "ValueZeroing",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'normxlogit.decompositions' has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
