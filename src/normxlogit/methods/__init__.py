"""Attribution methods. Importing this package registers all of them."""

from . import normxlogit

# isort: split
from . import gradient, perturbation
from .decomposition import alti, decompx, globenc, rollout, value_zeroing
from .registry import MethodInfo, list_methods, register

__all__ = [
    "MethodInfo",
    "alti",
    "decompx",
    "globenc",
    "gradient",
    "list_methods",
    "normxlogit",
    "perturbation",
    "register",
    "rollout",
    "value_zeroing",
]
