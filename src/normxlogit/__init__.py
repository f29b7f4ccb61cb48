"""Which input tokens a Hugging Face model's answer rests on, from the forward pass it already runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .corpora.jobs import Answers, Completions, Conversations, Predictions
    from .corpora.run import attribute
    from .corpora.summaries.summary import summarize
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
    from .results.attribution import Attribution
    from .results.collection import Attributions, load
    from .tasks.targets import ALL

__all__ = [
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
    "HeadMismatchError",
    "InputError",
    "MethodError",
    "TargetError",
    "UnsupportedModelError",
    "__version__",
]
if Path(__file__).with_name("corpora").is_dir():
    __all__ += ["attribute", "Predictions", "Completions", "Answers", "Conversations", "summarize"]

_HOMES = (
    {
        "ALL": "tasks.targets",
        "Explainer": "explainer",
        "Attributions": "results.collection",
        "load": "results.collection",
    }
    | dict.fromkeys(("Method", "MethodInfo", "Request", "Scores", "list_methods", "register"), "methods")
    | dict.fromkeys(("attribute", "summarize", "Predictions", "Completions", "Answers", "Conversations"), "corpora")
    | {"Attribution": "results.attribution"}
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds, `--help` should not."""
    from .extending import named

    if name not in __all__:
        raise AttributeError(f"module 'normxlogit' has no attribute {name!r}")
    return named(f"{__name__}.{_HOMES.get(name, 'errors')}:{name}")


def __dir__() -> list[str]:
    return __all__
