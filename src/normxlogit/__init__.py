"""Which input tokens a Hugging Face model's answer rests on, from the forward pass it already runs."""

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .corpus.run import attribute
    from .corpus.summary import summarize
    from .errors import (
        DataError,
        HeadMismatchError,
        InputError,
        MethodError,
        NormXLogitError,
        TargetError,
        UnsupportedModelError,
    )
    from .explainer import Explainer
    from .methods import Method, MethodInfo, Request, Scores, list_methods, register
    from .results.attribution import Attribution, UnitScore
    from .results.citation_test import CitationTest, Swap
    from .results.citations import Citation, Citations
    from .results.collection import Attributions, load
    from .results.comparison import Comparison
    from .results.media import Medium, MediumScores
    from .results.targets import Prediction, Target
    from .results.units import Units
    from .results.verification import Removal, Verification
    from .results.words import Word
    from .tasks.targets import ALL

__all__ = [
    "ALL",
    "Explainer",
    "attribute",
    "load",
    "summarize",
    "Attribution",
    "Attributions",
    "Comparison",
    "Citation",
    "Citations",
    "CitationTest",
    "Medium",
    "MediumScores",
    "Prediction",
    "Removal",
    "Swap",
    "Target",
    "UnitScore",
    "Units",
    "Verification",
    "Word",
    "Method",
    "MethodInfo",
    "Request",
    "Scores",
    "list_methods",
    "register",
    "NormXLogitError",
    "DataError",
    "HeadMismatchError",
    "InputError",
    "MethodError",
    "TargetError",
    "UnsupportedModelError",
    "__version__",
]

_HOMES = (
    {
        "ALL": "tasks.targets",
        "Explainer": "explainer",
        "attribute": "corpus.run",
        "summarize": "corpus.summary",
        "Attributions": "results.collection",
        "load": "results.collection",
        "CitationTest": "results.citation_test",
        "Swap": "results.citation_test",
        "Removal": "results.verification",
        "Verification": "results.verification",
        "Comparison": "results.comparison",
        "Medium": "results.media",
        "MediumScores": "results.media",
        "UnitScore": "results.attribution",
        "Units": "results.units",
        "Citation": "results.citations",
        "Citations": "results.citations",
        "Word": "results.words",
    }
    | dict.fromkeys(("Method", "MethodInfo", "Request", "Scores", "list_methods", "register"), "methods")
    | {"Attribution": "results.attribution"}
    | dict.fromkeys(("Prediction", "Target"), "results.targets")
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds, `--help` should not."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'normxlogit' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'errors')}", __name__), name)


def __dir__() -> list[str]:
    return __all__
