"""Attribution methods, imported on first use: their classes import torch, the registry does not."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import MethodInfo, list_methods, method_named, register

if TYPE_CHECKING:
    from .base import Method, Request, Scores, check_finite, run_method, stacked
    from .frozen import FrozenGradient
    from .normxlogit import InputNorm, LogAt, NormXLogit, Random
    from .perturbation import Occlusion

BASE = ("Method", "Request", "Scores", "check_finite", "run_method", "stacked")

__all__ = [
    "FrozenGradient",
    "InputNorm",
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


def __getattr__(name: str) -> Any:
    """Return what a method's class is made of, or the class of a registered method, such as `IntegratedGradients`."""
    if name in BASE:
        return getattr(import_module(".base", __name__), name)
    method = next((info for info in list_methods() if info.name.replace("-", "") == name.lower()), None)
    if method is None or method.cls.__name__ != name:
        raise AttributeError(f"module 'normxlogit.methods' has no attribute {name!r}")
    return method.cls
