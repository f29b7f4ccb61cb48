"""What an explanation is: scores with everything needed to read, show and store them; the types of their parts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attribution import Pairs, UnitScore
    from .citation_test import CitationTest, Swap
    from .citations import Citation, Support
    from .media import Medium, MediumScores, WordMoments
    from .targets import Prediction, Target
    from .units import Units
    from .verification import Removal, Verification
    from .words import Word

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
    "WordMoments",
]

_HOMES = {
    "Citation": "citations",
    "CitationTest": "citation_test",
    "Medium": "media",
    "MediumScores": "media",
    "Pairs": "attribution",
    "Prediction": "targets",
    "Removal": "verification",
    "Support": "citations",
    "Swap": "citation_test",
    "Target": "targets",
    "UnitScore": "attribution",
    "Units": "units",
    "Verification": "verification",
    "Word": "words",
    "WordMoments": "media",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the modules import each other."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'normxlogit.results' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
