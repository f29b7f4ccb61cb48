"""What an explanation is: scores with everything needed to read, show and store them; the types of their parts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .citations import Support
    from .targets import Prediction, Target
    from .units.words import UnitScore
    from .verification import Verification

__all__ = ["Prediction", "Support", "Target", "UnitScore", "Verification"]

_HOMES = {
    "Prediction": "targets",
    "Support": "citations",
    "Target": "targets",
    "UnitScore": "units.words",
    "Verification": "verification",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the modules import each other."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'normxlogit.results' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
