"""Attribution methods, imported on first use: their classes import torch, the registry does not."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_MODULES = {
    "FrozenGradient": "frozen",
    "GuidedLime": "guided_lime",
    "Occlusion": "perturbation",
    **dict.fromkeys(("GradientNorm", "GradientXInput", "IntegratedGradients"), "gradient"),
    **dict.fromkeys(("ContextCite", "KernelShap", "Lime"), "surrogates"),
    **dict.fromkeys(("InputNorm", "LogAt", "NormXLogit", "Random"), "normxlogit"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'normxlogit.methods' has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES.get(name, 'base')}", __name__), name)


def __dir__() -> list[str]:
    return __all__
