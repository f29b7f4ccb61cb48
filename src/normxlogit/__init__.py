"""Which input tokens a Hugging Face model's answer rests on, from the forward pass it already runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from ._version import __version__
from .extending import lazy_names

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
    from .model_comparison.compare import compare_models
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
_MODULES: dict[str, tuple[str, ...]] = {
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "explainer": ("Explainer",),
    "methods": ("Method", "MethodInfo", "Request", "Scores", "list_methods", "register"),
    "results.attribution": ("Attribution",),
    "results.collection": ("Attributions", "load"),
    "tasks.targets": ("ALL",),
}
if Path(__file__).with_name("corpora").is_dir():
    __all__ += ["attribute", "Predictions", "Completions", "Answers", "Conversations", "summarize"]
    _MODULES["corpora"] = ("attribute", "Predictions", "Completions", "Answers", "Conversations", "summarize")
if Path(__file__).with_name("model_comparison").is_dir():
    __all__ += ["compare_models"]
    _MODULES["model_comparison.compare"] = ("compare_models",)

__getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
