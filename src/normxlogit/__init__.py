"""Which words of its input a model's answer rests on, and what it would answer without them."""

from typing import Any

from ._version import __version__ as __version__
from .extending import import_reference, lazy_names, named_in, wings

CORE = (
    "ALL",
    "Explainer",
    "load",
    "Attribution",
    "Attributions",
    "Method",
    "MethodInfo",
    "Request",
    "Scores",
    "list_methods",
    "register",
    "NormXLogitError",
    "DataError",
    "ExtensionError",
    "HeadMismatchError",
    "InputError",
    "MethodError",
    "TargetError",
    "UnsupportedModelError",
    "__version__",
)
"""The public names of the core; type checkers read `__init__.pyi`."""

_core_name = lazy_names(
    __name__,
    {
        "errors": tuple(name for name in CORE if name.endswith("Error")),
        "explainer": ("Explainer",),
        "methods": ("Method", "MethodInfo", "Request", "Scores", "list_methods", "register"),
        "results.attribution": ("Attribution",),
        "results.collection": ("Attributions", "load"),
        "tasks.targets": ("ALL",),
    },
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds."""
    if name == "__all__":
        return __dir__()
    # `_core_name` refuses a name that nobody has; one with an underscore is no wing's, and is asked for by Python.
    if name in CORE or name.startswith("_") or name not in _names_of_wings():
        return _core_name(name)
    return import_reference(_names_of_wings()[name])


def __dir__() -> list[str]:
    return [*CORE, *_names_of_wings()]


def _names_of_wings() -> dict[str, str]:
    return named_in(wings(), "names")
