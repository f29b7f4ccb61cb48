"""What an explanation is: scores with everything needed to read, show and store them; the types of their parts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attribution import Pairs, UnitScore
    from .citation_test import CitationTest, Swap
    from .citations import Citation, Support
    from .targets import Prediction, Target
    from .units.media import Medium, MediumScores
    from .units.units import Units
    from .units.words import Word
    from .verification import Removal, Verification

__all__ = [
    "Citation",
    "CitationTest",
    "Medium",
    "MediumScores",
    "Pairs",
    "Prediction",
    "Removal",
    "Support",
    "Swap",
    "Target",
    "UnitScore",
    "Units",
    "Verification",
    "Word",
]

_HOMES = {
    "Citation": "citations",
    "CitationTest": "citation_test",
    "Medium": "units.media",
    "MediumScores": "units.media",
    "Pairs": "attribution",
    "Prediction": "targets",
    "Removal": "verification",
    "Support": "citations",
    "Swap": "citation_test",
    "Target": "targets",
    "UnitScore": "attribution",
    "Units": "units.units",
    "Verification": "verification",
    "Word": "units.words",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the modules import each other."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'normxlogit.results' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
