"""Attribution methods. Importing this package registers all of them."""

from . import logat

# isort: split
from . import alti, decompx, globenc, gradient, perturbation, rollout, value_zeroing
from .registry import MethodInfo, list_methods, register

__all__ = [
    "MethodInfo",
    "list_methods",
    "register",
    "alti",
    "decompx",
    "globenc",
    "gradient",
    "logat",
    "perturbation",
    "rollout",
    "value_zeroing",
]
