"""Attribution methods, imported on first use: their classes import torch, the registry does not."""

from typing import TYPE_CHECKING

from ..extending import lazy_names
from .registry import MethodInfo, list_methods, method_named, register

if TYPE_CHECKING:
    from .base import Method, Request, Scores, check_finite, run_method, stacked
    from .frozen import FrozenGradient
    from .gradient import GradientNorm, GradientXInput, IntegratedGradients
    from .guided_lime import GuidedLime
    from .normxlogit import InputNorm, LogAt, NormXLogit, Random
    from .perturbation import Occlusion
    from .surrogates import ContextCite, KernelShap, Lime

__all__ = [
    "ContextCite",
    "FrozenGradient",
    "GradientNorm",
    "GradientXInput",
    "GuidedLime",
    "InputNorm",
    "IntegratedGradients",
    "KernelShap",
    "Lime",
    "LogAt",
    "Method",
    "MethodInfo",
    "NormXLogit",
    "Occlusion",
    "Random",
    "Request",
    "Scores",
    "check_finite",
    "list_methods",
    "method_named",
    "register",
    "run_method",
    "stacked",
]

__getattr__ = lazy_names(
    __name__,
    {
        "base": ("Method", "Request", "Scores", "check_finite", "run_method", "stacked"),
        "frozen": ("FrozenGradient",),
        "gradient": ("GradientNorm", "GradientXInput", "IntegratedGradients"),
        "guided_lime": ("GuidedLime",),
        "normxlogit": ("InputNorm", "LogAt", "NormXLogit", "Random"),
        "perturbation": ("Occlusion",),
        "surrogates": ("ContextCite", "KernelShap", "Lime"),
    },
)
