"""The public names of the package for type checkers, with those of its extensions."""

from ._version import __version__
from .corpora.jobs import Answers, Completions, Conversations, Predictions
from .corpora.run import attribute
from .corpora.summaries.summary import summarize
from .errors import (
    DataError,
    ExtensionError,
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
    "ExtensionError",
    "HeadMismatchError",
    "InputError",
    "MethodError",
    "TargetError",
    "UnsupportedModelError",
    "__version__",
    "attribute",
    "Predictions",
    "Completions",
    "Answers",
    "Conversations",
    "summarize",
]
