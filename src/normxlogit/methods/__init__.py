"""Attribution methods. Importing this package registers all of them."""

from . import gradient, logat, perturbation
from .registry import MethodInfo, list_methods, register

__all__ = ["MethodInfo", "list_methods", "register", "gradient", "logat", "perturbation"]
