"""Methods that the paper compares with: decompositions of encoders, gradients, and linear models of perturbed texts."""

from typing import TYPE_CHECKING

from ..extending import lazy_names

if TYPE_CHECKING:
    from .decompx import DecompX
    from .gradient import GradientNorm, GradientXInput, IntegratedGradients
    from .matrix import Alti, AttentionRollout, GlobEnc
    from .surrogates import ContextCite, KernelShap, Lime
    from .value_zeroing import ValueZeroing

__all__ = ["Alti", "AttentionRollout", "ContextCite", "DecompX", "GlobEnc", "GradientNorm", "GradientXInput"]
__all__ += ["IntegratedGradients", "KernelShap", "Lime", "ValueZeroing"]

__getattr__ = lazy_names(
    __name__,
    {
        "decompx": ("DecompX",),
        "gradient": ("GradientNorm", "GradientXInput", "IntegratedGradients"),
        "matrix": ("Alti", "AttentionRollout", "GlobEnc"),
        "surrogates": ("ContextCite", "KernelShap", "Lime"),
        "value_zeroing": ("ValueZeroing",),
    },
)
