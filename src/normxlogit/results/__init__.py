"""Results: the attribution with its units and targets, collections and storage."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .targets import Prediction, Target
    from .units.words import UnitScore
    from .verification import Verification

__all__ = ["Prediction", "Target", "UnitScore", "Verification"]

_HOMES = {"UnitScore": "units.words", "Verification": "verification"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command line needs none of them for `--help`."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'normxlogit.results' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'targets')}", __name__), name)
