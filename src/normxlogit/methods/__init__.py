"""Attribution methods. Importing this package registers all of them."""

from .base import Method, Request, Scores, check_finite, run_method, stacked
from .normxlogit import InputNorm, LogAt, NormXLogit, Random

# isort: split
from .decomposition.alti import Alti
from .decomposition.decompx import DecompX
from .decomposition.globenc import GlobEnc
from .decomposition.rollout import AttentionRollout
from .decomposition.value_zeroing import ValueZeroing
from .frozen import FrozenGradient
from .gradient import GradientNorm, GradientXInput, IntegratedGradients
from .guided_lime import GuidedLime
from .occlusion import Occlusion
from .registry import MethodInfo, list_methods, method_named, register
from .surrogates import ContextCite, KernelShap, Lime

__all__ = [
    "Alti",
    "AttentionRollout",
    "ContextCite",
    "DecompX",
    "FrozenGradient",
    "GlobEnc",
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
    "ValueZeroing",
    "check_finite",
    "list_methods",
    "method_named",
    "register",
    "run_method",
    "stacked",
]
